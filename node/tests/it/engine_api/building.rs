//! Payloads that the node builds: what is in them, what they are worth, and how they get better.

use super::beacon::{Driven, ROOT, attributes, driven, quantity, read, state};
use crate::kit::{Call, FUNDED, address, genesis, signed};
use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use phalanx::alloy::genesis::GenesisAccount;
use phalanx_node::{BlockSource, Node};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Account that withdrawals go to.
const WITHDRAWN: Address = Address::repeat_byte(0xdd);

#[test]
fn a_built_payload_has_its_attributes_and_is_worth_its_tips() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Driven::start(&driven(folder.path(), genesis()));
    let genesis = node.genesis();
    for (from, tip) in [(0, 1_000_000), (1, 5_000_000), (2, 7)] {
        node.client.send(&signed(2, &Call::to(from, 0, address(3), 1).with_tip(tip), vec![]));
    }
    // A builder that has begun is done soon; on a busy machine another may have to begin.
    let seed = node.build_with(5, genesis, 12, 3);
    let wanted = json!({
        "timestamp": "0xc", "prevRandao": seed.body["prevRandao"], "suggestedFeeRecipient": seed.body["feeRecipient"],
        "withdrawals": seed.body["withdrawals"], "parentBeaconBlockRoot": ROOT,
    });
    let id = node.begin(5, genesis, &wanted);
    assert_eq!(node.begin(5, genesis, &wanted), id, "the same job");
    let built = node.get("engine_getPayloadV5", &json!([id]));
    assert_eq!(node.get("engine_getPayloadV5", &json!([id])), built, "it stays");
    assert_eq!(built["shouldOverrideBuilder"], json!(false));
    assert_eq!(built["blobsBundle"], json!({ "commitments": [], "proofs": [], "blobs": [] }));
    let payload = node.fetch(5, &id);
    assert_eq!(payload.txs().len(), 3);
    assert_eq!((payload.number(), payload.timestamp(), payload.parent()), (1, 12, genesis));
    let recipient: Address = read(&wanted["suggestedFeeRecipient"]);
    assert_eq!(payload.body["feeRecipient"], json!(recipient));
    assert_eq!(payload.body["prevRandao"], wanted["prevRandao"]);
    assert_eq!(payload.body["withdrawals"], wanted["withdrawals"]);
    assert_eq!(node.offer(&payload), ("VALID".into(), Some(payload.hash())));
    node.head(payload.hash());
    let block = node.client.get("eth_getBlockByNumber", json!(["latest", true]));
    assert_eq!((&block["hash"], &block["parentBeaconBlockRoot"]), (&json!(payload.hash()), &json!(ROOT)));
    let receipts = node.client.get("eth_getBlockReceipts", json!(["latest"]));
    let base = U256::from(quantity(&block["baseFeePerGas"]));
    let tips = receipts.as_array().expect("receipts").iter().map(|receipt| {
        let price: U256 = read(&receipt["effectiveGasPrice"]);
        (price - base) * U256::from(quantity(&receipt["gasUsed"]))
    });
    let tips = tips.fold(U256::ZERO, |sum, tip| sum + tip);
    assert_eq!(read::<U256>(&built["blockValue"]), tips);
    assert_eq!(node.balance(recipient), tips);
    assert_eq!(node.balance(WITHDRAWN), U256::from(10).pow(U256::from(18)));
    // Other attributes are another job; a time that is not behind the head is none, and the head is chosen none the less.
    let [other, same] = [8, 7].map(|seed| node.begin(5, payload.hash(), &attributes(5, 24, seed)));
    assert_ne!(other, same);
    node.head(genesis);
    let late = json!([state(payload.hash(), B256::ZERO, B256::ZERO), attributes(5, 12, 8)]);
    assert_eq!(node.error("engine_forkchoiceUpdatedV3", &late), -38003);
    assert_eq!(node.tagged("latest"), Some(payload.hash()));
    // Jobs on a head that was left can still be fetched.
    for id in [&other, &same] {
        assert_eq!(node.fetch(5, id).parent(), payload.hash());
    }
    node.stop();
}

#[test]
fn a_payload_takes_what_arrives_until_it_is_fetched() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Driven::start(&driven(folder.path(), genesis()));
    let genesis = node.genesis();
    // The node looks at the pool from time to time: on a busy machine a try may be too short.
    let has_taken = |attempt: u64| {
        let id = node.begin(5, genesis, &attributes(5, 2_000_000_000 + attempt, attempt));
        node.client.send(&signed(2, &Call::to(0, attempt, address(3), 1), vec![]));
        std::thread::sleep(Duration::from_millis(100 << attempt));
        node.fetch(5, &id).txs().len() as u64 == attempt + 1
    };
    assert!((0..8).any(has_taken), "no payload takes what arrives behind its beginning");
    node.stop();
}

#[test]
fn built_payloads_have_the_nodes_extra_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let with = |bytes: &'static [u8]| {
        let mut settings = driven(folder.path(), genesis());
        if let BlockSource::Client(api) = &mut settings.source {
            api.extra_data = Bytes::from_static(bytes);
        }
        settings
    };
    let refused = Node::start(&with(&[b'x'; 33])).expect_err("too long");
    assert!(refused.to_string().contains("at most 32 bytes"), "{refused}");
    let node = Driven::start(&with(b"a node"));
    let payload = node.build(5, node.genesis(), &attributes(5, 12, 1));
    assert_eq!(payload.body["extraData"], json!(hex::encode_prefixed("a node")));
    assert_eq!(node.offer(&payload), ("VALID".into(), Some(payload.hash())));
    node.head(payload.hash());
    node.stop();
}

#[test]
fn a_job_goes_on_while_payloads_are_judged() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Driven::start(&driven(folder.path(), genesis()));
    let root = node.genesis();
    let beside = node.build(5, root, &attributes(5, 12, 1));
    node.client.send(&signed(2, &Call::to(0, 0, address(3), 1), vec![]));
    // A payload beside the job leaves a draft of it, which takes nothing from the block that is fetched.
    let has_taken = |attempt: u64| {
        let id = node.begin(5, root, &attributes(5, 2_000_000_000 + attempt, attempt));
        let changed = beside.with("gasLimit", json!(format!("{:#x}", quantity(&beside.body["gasLimit"]) - attempt)));
        node.offer(&changed);
        node.client.send(&signed(2, &Call::to(0, attempt + 1, address(3), 1), vec![]));
        std::thread::sleep(Duration::from_millis(100 << attempt));
        node.fetch(5, &id).txs().len() as u64 == attempt + 2
    };
    assert!((0..8).any(has_taken), "no payload takes what arrives behind another one");
    node.stop();
}

#[test]
fn a_block_is_fetched_while_a_long_payload_is_judged() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut chain, contract) = (genesis(), Address::repeat_byte(0xcc));
    // JUMPDEST, PUSH0, JUMP: until the gas is used.
    chain.alloc.insert(contract, GenesisAccount::default().with_code(Some(vec![0x5b, 0x5f, 0x56].into())));
    chain.gas_limit = 10_000_000_000;
    let node = Driven::start(&driven(folder.path(), chain));
    let root = node.genesis();
    let base = node.build(5, root, &attributes(5, 12, 1));
    // How long a machine takes is not known: the payload gets longer until the block is there before the verdict.
    let is_past = |attempt: u64| {
        let call = |number: u64| Call::to(number % FUNDED, number / FUNDED, contract, 0);
        let txs: Vec<_> = (0..4_000 << attempt).map(|number| signed(2, &call(number), vec![])).collect();
        let long = base.with("transactions", json!(txs));
        let time = 2_000_000_000 + attempt;
        let id = node.begin(5, root, &attributes(5, time, attempt));
        let ((fetched, there), (judged, end)) = std::thread::scope(|scope| {
            let judging = scope.spawn(|| (node.offer(&long), Instant::now()));
            std::thread::sleep(Duration::from_millis(200));
            let fetched = (node.fetch(5, &id), Instant::now());
            (fetched, judging.join().expect("no panic"))
        });
        let verdicts = [("INVALID".to_owned(), Some(root)), ("SYNCING".to_owned(), None)];
        assert!(verdicts.contains(&judged), "{judged:?}");
        assert_eq!((fetched.parent(), fetched.timestamp(), fetched.txs().len()), (root, time, 0));
        there < end
    };
    assert!((0..3).any(is_past), "the block is never there before the verdict");
    node.stop();
}

#[test]
fn a_payload_that_is_fetched_right_behind_another_one_has_what_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Driven::start(&driven(folder.path(), genesis()));
    let root = node.genesis();
    let beside = node.build(5, root, &attributes(5, 12, 1));
    node.client.send(&signed(2, &Call::to(0, 0, address(3), 1), vec![]));
    let has_taken = |attempt: u64| {
        let wrong = beside.with("gasUsed", json!(format!("{:#x}", attempt + 1)));
        let id = node.begin(5, root, &attributes(5, 2_000_000_000 + attempt, attempt));
        std::thread::scope(|scope| {
            let judging = scope.spawn(|| node.offer(&wrong));
            let begun = Instant::now();
            let has_taken = node.fetch(5, &id).txs().len() == 1;
            // The node waits for 400 ms before it gives a block with less than it could have.
            assert!(has_taken || begun.elapsed() > Duration::from_millis(300), "attempt {attempt}");
            assert_eq!(judging.join().expect("no panic"), ("INVALID".into(), Some(root)));
            has_taken
        })
    };
    let taken = (0..32).filter(|attempt| has_taken(*attempt)).count();
    assert!(taken > 0, "no payload takes what waits");
    node.stop();
}

#[test]
fn bodies_are_served_by_hash_and_by_range() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Driven::start(&driven(folder.path(), genesis()));
    let mut chain = vec![node.genesis()];
    let mut bodies = Vec::new();
    for height in 1..=4u64 {
        node.client.send(&signed(2, &Call::to(0, height - 1, address(1), 1), vec![]));
        let payload = node.build_with(5, chain[chain.len() - 1], 12 * height, 1);
        node.offer(&payload);
        node.head(payload.hash());
        chain.push(payload.hash());
        bodies.push(json!({ "transactions": payload.txs(), "withdrawals": payload.body["withdrawals"] }));
    }
    let unknown = B256::repeat_byte(1);
    let found = node.get("engine_getPayloadBodiesByHashV1", &json!([[chain[2], unknown, chain[1]]]));
    assert_eq!(found, json!([bodies[1], null, bodies[0]]));
    let mut with_list = bodies[1].clone();
    with_list["blockAccessList"] = Value::Null;
    assert_eq!(node.get("engine_getPayloadBodiesByHashV2", &json!([[chain[2]]])), json!([with_list]));
    for (start, count, expected) in [(1, 2, &bodies[..2]), (3, 9, &bodies[2..]), (5, 3, &[])] {
        let range = json!([format!("{start:#x}"), format!("{count:#x}")]);
        assert_eq!(node.get("engine_getPayloadBodiesByRangeV1", &range), json!(expected), "{range}");
    }
    for (start, count, code) in [(0, 1, -32602), (1, 0, -32602), (1, 1_000, -38004)] {
        let range = json!([format!("{start:#x}"), format!("{count:#x}")]);
        assert_eq!(node.error("engine_getPayloadBodiesByRangeV2", &range), code, "{range}");
    }
    assert_eq!(node.error("engine_getPayloadBodiesByHashV1", &json!([vec![unknown; 1_000]])), -38004);
    node.stop();
}

#[test]
fn blobs_go_with_the_payload_and_are_found_in_the_pool() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Driven::start(&driven(folder.path(), genesis()));
    node.client.send(&signed(3, &Call::to(0, 0, address(1), 0), vec![]));
    let mut infinity = [0; 48];
    infinity[0] = 0xc0;
    let mut hash: B256 = B256::new(sha256(&infinity));
    hash.0[0] = 1;
    let blobs = node.get("engine_getBlobsV2", &json!([[hash]]));
    assert_eq!(blobs[0]["proofs"], json!(vec![hex::encode_prefixed(infinity); 128]));
    assert_eq!(blobs[0]["blob"], json!(hex::encode_prefixed(vec![0; 131_072])));
    assert!(node.get("engine_getBlobsV2", &json!([[hash, keccak256([1])]])).is_null(), "one is missing");
    assert_eq!(node.error("engine_getBlobsV1", &json!([[hash]])), -38005, "Osaka has cells");
    for method in ["engine_getBlobsV1", "engine_getBlobsV2"] {
        assert_eq!(node.error(method, &json!([vec![hash; 129]])), -38004);
    }
    let payload = node.build_with(5, node.genesis(), 12, 1);
    let bundle = &payload.bundle;
    assert_eq!(bundle["commitments"], json!([hex::encode_prefixed(infinity)]));
    assert_eq!(
        (bundle["blobs"].as_array().map(Vec::len), bundle["proofs"].as_array().map(Vec::len)),
        (Some(1), Some(128))
    );
    assert_eq!(payload.blobs(), [hash]);
    assert_eq!(node.offer(&payload), ("VALID".into(), Some(payload.hash())));
    node.head(payload.hash());
    node.stop();
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}
