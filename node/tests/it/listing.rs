//! Parts of a state in order, calls behind each other, packed dumps, and filters of a chain that goes back.

use crate::kit::{Call, Client, address, deploy, development, signed};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use flate2::{Compression, write::GzEncoder};
use phalanx_node::Node;
use serde_json::{Value, json};
use std::{io::Write as _, path::Path};

/// Code that writes the second word of its call at the slot of the first, and answers what was there.
const KEEPER: [u8; 15] = [0x5f, 0x35, 0x80, 0x54, 0x5f, 0x52, 0x60, 0x20, 0x35, 0x90, 0x55, 0x60, 0x20, 0x5f, 0xf3];

fn start(folder: &Path) -> (Node, Client) {
    let mut settings = development(folder);
    settings.rpc.namespaces.push("trace".into());
    let node = Node::start(&settings).expect("a node");
    let client = Client::new(node.address());
    (node, client)
}

fn words(words: &[u64]) -> Bytes {
    words.iter().flat_map(|word| B256::from(U256::from(*word)).0).collect::<Vec<u8>>().into()
}

fn contract(client: Client) -> Address {
    let receipt = client.include(&deploy(0, 0, &KEEPER));
    serde_json::from_value(receipt["contractAddress"].clone()).expect("an address")
}

#[test]
fn slots_and_accounts_are_listed_in_the_order_of_their_hashes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path());
    let keeper = contract(client);
    // Three slots, one transaction each; the last block clears one and sets another.
    for (nonce, slot) in [(1, 3), (2, 4), (3, 5)] {
        client.include(&signed(2, &Call::to(0, nonce, keeper, 0).with_data(words(&[slot, slot * 10])), vec![]));
    }
    client.include(&signed(2, &Call::to(0, 4, keeper, 0).with_data(words(&[4, 0])), vec![]));
    let range = |block: &str, index: u64, start: B256, most: u64| {
        client.get("debug_storageRangeAt", json!([block, index, keeper, start, most]))
    };
    let expected = |slots: &[u64]| {
        let mut all: Vec<(B256, u64)> =
            slots.iter().map(|slot| (keccak256(B256::from(U256::from(*slot))), *slot)).collect();
        all.sort_unstable();
        all
    };
    let shown = |page: &Value| {
        let storage = page["storage"].as_object().expect("an object");
        storage
            .iter()
            .map(|(hash, of)| (hash.parse().expect("a hash"), of["value"].clone()))
            .collect::<Vec<(B256, Value)>>()
    };
    let of = |slots: &[u64]| {
        expected(slots)
            .into_iter()
            .map(|(hash, slot)| (hash, json!(B256::from(U256::from(slot * 10)))))
            .collect::<Vec<_>>()
    };
    // Before and behind the only transaction of block 5.
    assert_eq!(shown(&range("0x5", 0, B256::ZERO, 10)), of(&[3, 4, 5]));
    assert_eq!(shown(&range("0x5", 1, B256::ZERO, 10)), of(&[3, 5]));
    assert_eq!(shown(&range("0x3", 1, B256::ZERO, 10)), of(&[3, 4]));
    // Pages follow each other.
    let (mut start, mut paged) = (json!(B256::ZERO), Vec::new());
    while !start.is_null() {
        let page = range("0x5", 0, serde_json::from_value(start).expect("a hash"), 1);
        assert_eq!(shown(&page).len(), 1);
        paged.extend(shown(&page));
        start = page["nextKey"].clone();
    }
    assert_eq!(paged, of(&[3, 4, 5]));
    let all = client.get("debug_accountRange", json!(["latest", "0x", 256, false, false, false]));
    let account = &all["accounts"][keeper.to_string().to_lowercase()];
    assert_eq!(account["code"], json!(Bytes::copy_from_slice(&KEEPER)), "{all}");
    assert_eq!(account["storage"].as_object().expect("slots").len(), 2);
    assert_eq!(account["key"], json!(keccak256(keeper)));
    let sender = &all["accounts"][address(0).to_string().to_lowercase()];
    assert_eq!(sender["nonce"], json!(5));
    assert_eq!(sender["balance"], json!(client.quantity("eth_getBalance", json!([address(0), "latest"])).to_string()));
    let first = client.get("debug_accountRange", json!(["0x0", "0x", 2, true, true, false]));
    assert_eq!(first["accounts"].as_object().expect("accounts").len(), 2);
    assert!(first["next"].is_string() && first["accounts"].get(keeper.to_string().to_lowercase()).is_none());
    node.stop();
}

#[test]
fn calls_of_bundles_run_behind_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path());
    let keeper = contract(client);
    let call = |slot: u64, word: u64| json!({ "to": keeper, "data": words(&[slot, word]) });
    let number = json!({ "to": Address::repeat_byte(5), "gas": "0x7530" });
    let bundles = json!([
        { "transactions": [call(1, 7), call(1, 8)] },
        { "transactions": [call(1, 9), { "to": keeper, "data": "0x", "gas": "0x5300" }, number], "blockOverride": { "number": "0x64" } },
    ]);
    let overrides = json!({ Address::repeat_byte(5).to_string(): { "code": "0x435f5260205ff3" } });
    let answers =
        client.get("eth_callMany", json!([bundles, { "blockNumber": "latest", "transactionIndex": -1 }, overrides]));
    let value = |bundle: usize, place: usize| answers[bundle][place]["value"].clone();
    let word = |word: u64| json!(words(&[word]));
    assert_eq!(
        [value(0, 0), value(0, 1), value(1, 0), value(1, 2)],
        [word(0), word(7), word(8), word(100)],
        "{answers}"
    );
    assert!(answers[1][1]["error"].as_str().is_some_and(|error| error.contains("gas")), "{answers}");
    // Nothing of it is left.
    assert_eq!(client.get("eth_getStorageAt", json!([keeper, "0x1", "latest"])), json!(B256::ZERO));
    let many: Vec<Value> = (0..1_001).map(|_| call(1, 1)).collect();
    assert!(client.error("eth_callMany", json!([[{ "transactions": many }]])).1.contains("max 1000"));
    assert_eq!(client.error("eth_callMany", json!([[{}]])).0, -32602);
    node.stop();
}

#[test]
fn a_dump_that_is_packed_is_loaded() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(&folder.path().join("one"));
    let keeper = contract(client);
    client.include(&signed(2, &Call::to(0, 1, keeper, 0).with_data(words(&[1, 2])), vec![]));
    let dump: Bytes = serde_json::from_value(client.get("anvil_dumpState", json!([]))).expect("bytes");
    node.stop();
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&dump).expect("packed");
    let packed = Bytes::from(packed.finish().expect("packed"));
    let (node, client) = start(&folder.path().join("two"));
    assert_eq!(client.get("anvil_loadState", json!([packed])), json!(true));
    assert_eq!(client.get("eth_getStorageAt", json!([keeper, "0x1", "latest"])), json!(B256::from(U256::from(2))));
    let torn = packed.slice(..packed.len() - 9);
    assert!(client.error("anvil_loadState", json!([torn])).1.contains("gzip"));
    node.stop();
}

#[test]
fn filters_see_the_blocks_that_come_in_the_place_of_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path());
    let mine = || client.get("evm_mine", json!([]));
    mine();
    let snapshot = client.get("evm_snapshot", json!([]));
    let filter = client.get("eth_newBlockFilter", json!([]));
    let changes = || {
        let hashes = client.get("eth_getFilterChanges", json!([filter]));
        hashes.as_array().expect("hashes").clone()
    };
    let hash = |height: u64| client.get("eth_getBlockByNumber", json!([format!("{height:#x}"), false]))["hash"].clone();
    (0..2).for_each(|_| _ = mine());
    assert_eq!(changes(), [hash(2), hash(3)]);
    client.get("evm_revert", json!([snapshot]));
    client.get("evm_increaseTime", json!([100]));
    // More blocks than there were: the first two of them are new all the same.
    (0..4).for_each(|_| _ = mine());
    assert_eq!(changes(), [hash(2), hash(3), hash(4), hash(5)]);
    assert!(changes().is_empty());
    node.stop();
}
