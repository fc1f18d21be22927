//! A chain for development that goes on from another node's: it ends as that node's own chain does, whatever the other node does.

use crate::kit::{CHAIN, Call, Client, FUNDED, Fate, Proxy, address, config, deploy, development, signed};
use alloy_primitives::{Address, B256, Bytes, U256};
use phalanx_node::{
    DEV_BALANCE, DEV_MNEMONIC, Node, NodeConfig, Production, Remote, RemoteConfig, dev_accounts, dev_genesis,
    into_development,
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Code that keeps the word of its call: at slot 0, and the hash of the block of that number at slot 1.
const KEEPER: [u8; 11] = [0x5f, 0x35, 0x80, 0x5f, 0x55, 0x40, 0x60, 0x01, 0x55, 0x5f, 0x00];

/// Code that logs the word of its call and the one that it keeps at slot 0, and adds one to that.
const COUNTER: [u8; 17] =
    [0x5f, 0x35, 0x5f, 0x54, 0x80, 0x60, 0x01, 0x01, 0x5f, 0x55, 0x5f, 0x52, 0x60, 0x20, 0x5f, 0xa1, 0x00];

fn word(number: u64) -> Bytes {
    B256::from(U256::from(number)).0.into()
}

/// Settings of a base with short pauses.
fn config_of(folder: &Path, url: &str, block: Option<u64>) -> RemoteConfig {
    let limits = RemoteConfig {
        timeout: Duration::from_secs(60),
        retries: 2,
        ..RemoteConfig::new(url, folder.join("cache"), folder.to_owned())
    };
    RemoteConfig { block, ..limits }
}

fn base(folder: &Path, url: &str, block: Option<u64>) -> Remote {
    Remote::open(&config_of(folder, url, block)).expect("a base")
}

/// Settings of a chain above a base, in a folder.
fn above(folder: &Path, base: &Remote) -> NodeConfig {
    let accounts = dev_accounts(DEV_MNEMONIC, 3).expect("a mnemonic");
    let mut settings = development(folder);
    settings.genesis = dev_genesis(CHAIN, &accounts, DEV_BALANCE);
    into_development(&mut settings.genesis, 0);
    base.put_above(&mut settings.genesis).expect("accounts");
    settings.remote = Some(base.clone());
    settings
}

fn start(settings: &NodeConfig) -> (Node, Client) {
    let node = Node::start(settings).expect("a node");
    let client = Client::new(node.address());
    (node, client)
}

fn url(node: &Node) -> String {
    format!("http://{}", node.address())
}

/// A remote chain of some blocks: contracts of `KEEPER` and `COUNTER`, and payments. Returns the contracts.
fn other(folder: &Path) -> (Node, Client, [Address; 2]) {
    let mut settings = config(folder, Production::Instant);
    into_development(&mut settings.genesis, 1_700_000_000);
    settings.history = 1_024;
    let (node, client) = start(&settings);
    let made = [&KEEPER[..], &COUNTER[..]].map(|code| {
        let nonce = client.quantity("eth_getTransactionCount", json!([address(0), "latest"])) as u64;
        let receipt = client.include(&deploy(0, nonce, code));
        serde_json::from_value(receipt["contractAddress"].clone()).expect("an address")
    });
    for (nonce, contract) in [(2, made[0]), (3, made[1]), (4, made[1])] {
        client.include(&signed(2, &Call::to(0, nonce, contract, 0).with_data(word(1)), vec![]));
    }
    client.include(&signed(2, &Call::to(1, 0, Address::repeat_byte(0x77), 5), vec![]));
    (node, client, made)
}

fn storage(client: Client, contract: Address, slot: u64) -> Value {
    client.get("eth_getStorageAt", json!([contract, format!("{slot:#x}"), "latest"]))
}

#[test]
fn a_chain_goes_on_from_another_one_as_that_one_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let (remote, there, [keeper, counter]) = other(&folder.path().join("remote"));
    let base = base(folder.path(), &url(&remote), None);
    let height = base.block().number;
    assert_eq!((base.chain_id(), height), (CHAIN, 6));
    let (node, here) = start(&above(&folder.path().join("fork"), &base));
    let same = |method: &str, params: Value| {
        assert_eq!(here.get(method, params.clone()), there.get(method, params), "{method}")
    };
    same("eth_blockNumber", json!([]));
    same("eth_chainId", json!([]));
    // Blocks, receipts, logs and states at and below the block are the other node's.
    for block in ["0x6", "0x4", "0x1", "earliest", "latest"] {
        same("eth_getBlockByNumber", json!([block, true]));
        same("eth_getBlockReceipts", json!([block]));
        for account in [address(0), address(1), counter, Address::repeat_byte(0x77), Address::repeat_byte(0x99)] {
            same("eth_getBalance", json!([account, block]));
            same("eth_getTransactionCount", json!([account, block]));
        }
        same("eth_getStorageAt", json!([counter, "0x0", block]));
        same("eth_call", json!([{ "to": counter, "data": word(3) }, block]));
    }
    same("eth_getCode", json!([counter, "latest"]));
    same("eth_getLogs", json!([{ "fromBlock": "0x0", "toBlock": "0x6" }]));
    let hash = there.get("eth_getBlockByNumber", json!(["0x4", false]))["transactions"][0].clone();
    same("eth_getTransactionReceipt", json!([hash]));
    same("eth_getTransactionByHash", json!([hash]));
    same("debug_traceTransaction", json!([hash, { "tracer": "callTracer" }]));
    assert!(here.get("eth_getTransactionReceipt", json!([B256::repeat_byte(1)])).is_null());
    // The same transactions end alike on both.
    let calls = [
        Call::to(0, 5, keeper, 0).with_data(word(3)),
        Call::to(0, 6, counter, 0).with_data(word(2)),
        Call::to(1, 1, address(0), 1_000),
        Call::to(0, 7, Address::repeat_byte(0x99), 1),
        Call::to(0, 8, keeper, 0).with_data(word(0)),
    ];
    let mut parent = base.block().hash();
    for call in calls {
        let tx = signed(2, &call, vec![]);
        let (mine, theirs) = (here.include(&tx), there.include(&tx));
        for field in ["status", "gasUsed", "blockNumber", "effectiveGasPrice", "transactionHash"] {
            assert_eq!(mine[field], theirs[field], "{field} of {call:?}");
        }
        let logged = |receipt: &Value| {
            receipt["logs"].as_array().expect("logs").iter().map(|log| log["data"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(logged(&mine), logged(&theirs), "{call:?}");
        let block = here.get("eth_getBlockByNumber", json!(["latest", false]));
        assert_eq!(block["parentHash"], json!(parent));
        parent = serde_json::from_value(block["hash"].clone()).expect("a hash");
        for account in [address(0), address(1), Address::repeat_byte(0x99)] {
            same("eth_getBalance", json!([account, "latest"]));
        }
        (0..2).for_each(|slot| same("eth_getStorageAt", json!([keeper, format!("{slot:#x}"), "latest"])));
        same("eth_getStorageAt", json!([counter, "0x0", "latest"]));
    }
    // A word that became zero does not show what is beneath: the keeper's is 1 there.
    assert_eq!(storage(here, keeper, 0), json!(B256::ZERO));
    // Block 3, whose hash the keeper has kept, is below the chain.
    let kept = here.get("eth_getStorageAt", json!([keeper, "0x1", "0x7"]));
    assert_eq!(kept, there.get("eth_getBlockByNumber", json!(["0x3", false]))["hash"]);
    // Logs of a range over the border are both's, in order.
    let logs = here.get("eth_getLogs", json!([{ "fromBlock": "0x1", "toBlock": "latest", "address": counter }]));
    let numbers: Vec<&str> =
        logs.as_array().expect("logs").iter().filter_map(|log| log["blockNumber"].as_str()).collect();
    assert_eq!(numbers, ["0x4", "0x5", "0x8"]);
    // Accounts for development are funded, act, and go back to the block that is gone on from.
    let first = dev_accounts(DEV_MNEMONIC, 1).expect("a mnemonic")[0].address;
    assert_eq!(here.get("eth_getBalance", json!([first, "latest"])), json!(DEV_BALANCE));
    here.get("anvil_setStorageAt", json!([counter, "0x0", B256::repeat_byte(4)]));
    assert_eq!(storage(here, counter, 0), json!(B256::repeat_byte(4)));
    for (method, params) in [
        ("debug_accountRange", json!(["latest", "0x", 1, true, true, false])),
        ("debug_storageRangeAt", json!(["latest", 0, counter, "0x", 1])),
    ] {
        let words = here.error(method, params).1;
        assert!(words.contains("lists no others"), "{method}: {words}");
    }
    here.get("anvil_reset", json!([]));
    assert_eq!(here.get("eth_blockNumber", json!([])), json!("0x6"));
    assert_eq!(storage(here, counter, 0), json!(B256::from(U256::from(2))));
    assert!(here.error("phalanx_getProof", json!([counter, [], "latest"])).1.contains("proves nothing else"));
    node.stop();
    remote.stop();
}

#[test]
fn a_restart_goes_on_and_asks_for_nothing_that_was_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let (remote, there, [keeper, counter]) = other(&folder.path().join("remote"));
    let proxy = Proxy::start(remote.address());
    let own = folder.path().join("fork");
    let settings = above(&own, &base(folder.path(), &proxy.url, Some(5)));
    let (node, here) = start(&settings);
    here.include(&signed(2, &Call::to(0, 5, keeper, 0).with_data(word(0)), vec![]));
    here.include(&signed(2, &Call::to(0, 6, counter, 0).with_data(word(2)), vec![]));
    let read = |client: Client| {
        let slots = [(keeper, 0), (keeper, 1), (counter, 0)].map(|(contract, slot)| storage(client, contract, slot));
        (slots, client.get("eth_getBalance", json!([address(0), "latest"])), client.get("eth_blockNumber", json!([])))
    };
    let before = read(here);
    assert_eq!(before.2, json!("0x7"));
    node.stop();
    drop(settings);
    // The same block is found again, by its number; its state is not asked for.
    there.include(&signed(2, &Call::to(1, 1, address(0), 1), vec![]));
    let again = base(folder.path(), &proxy.url, Some(5));
    proxy.play(|_, _| Fate::Pass);
    let mut settings = above(&own, &again);
    settings.remote = Some(again);
    let (node, here) = start(&settings);
    assert_eq!(read(here), before);
    here.include(&signed(2, &Call::to(0, 7, counter, 0).with_data(word(2)), vec![]));
    // A block's own slots of the protocol's contracts have other numbers in every block.
    assert!(proxy.asked() <= 3, "the rest was read before: {}", proxy.asked());
    node.stop();
    // A chain above another block is another chain.
    let other = base(folder.path(), &proxy.url, Some(4));
    assert!(other.check(&settings.genesis).is_err());
    assert!(Node::start(&above(&own, &other)).is_err());
    remote.stop();
}

/// What a remote contract's code is stays known where the account is stored and nothing of the cache is left.
#[test]
fn a_restart_without_the_cache_has_the_code_of_accounts_that_it_stores() {
    let folder = tempfile::tempdir().expect("a folder");
    let (remote, _, [_, counter]) = other(&folder.path().join("remote"));
    let own = folder.path().join("fork");
    let call = |nonce, value| signed(2, &Call::to(0, nonce, counter, value).with_data(word(2)), vec![]);
    let settings = above(&own, &base(folder.path(), &url(&remote), Some(5)));
    let (node, here) = start(&settings);
    here.include(&call(5, 1));
    let before = storage(here, counter, 0);
    node.stop();
    drop(settings);
    std::fs::remove_dir_all(folder.path().join("cache")).expect("a cache");
    let (node, here) = start(&above(&own, &base(folder.path(), &url(&remote), Some(5))));
    here.include(&call(6, 0));
    assert_ne!(storage(here, counter, 0), before, "its code ran");
    node.stop();
    remote.stop();
}

#[test]
fn blocks_of_known_accounts_ask_for_little() {
    let folder = tempfile::tempdir().expect("a folder");
    let (remote, _there, _) = other(&folder.path().join("remote"));
    let proxy = Proxy::start(remote.address());
    let (node, here) = start(&above(&folder.path().join("fork"), &base(folder.path(), &proxy.url, None)));
    let pay = |nonce| here.include(&signed(2, &Call::to(0, nonce, address(1), 1), vec![]));
    pay(5);
    proxy.play(|_, _| Fate::Pass);
    (6..36).for_each(|nonce| _ = pay(nonce));
    // Each block has slots of its own in the protocol's contracts, which are read for many blocks at once.
    assert!(proxy.asked() <= 12, "30 blocks took {} requests", proxy.asked());
    node.stop();
    remote.stop();
}

/// Blocks of many senders, executed in parallel, end as the same transactions do on the other chain, one block each.
#[test]
fn blocks_of_many_senders_end_as_there() {
    const SEED: u64 = 63;
    let folder = tempfile::tempdir().expect("a folder");
    let (remote, there, [_, counter]) = other(&folder.path().join("remote"));
    let mut settings = above(&folder.path().join("fork"), &base(folder.path(), &url(&remote), None));
    settings.production = Production::Off;
    let (node, here) = start(&settings);
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    println!("seed {SEED}");
    let mut nonces: Vec<u64> = (0..FUNDED)
        .map(|sender| match sender {
            0 => 5,
            1 => 1,
            _ => 0,
        })
        .collect();
    let fresh = |number: u64| Address::from_word(B256::from(U256::from(0xabc_0000 + number)));
    for _ in 0..4 {
        let mut txs = Vec::new();
        for _ in 0..60 {
            let from = rng.random_range(0..FUNDED);
            let (to, value) = match rng.random_range(0..3) {
                0 => (counter, 0),
                1 => (fresh(rng.random_range(0..20)), 1),
                _ => (address(rng.random_range(0..FUNDED)), 3),
            };
            let nonce = &mut nonces[from as usize];
            txs.push(signed(2, &Call::to(from, *nonce, to, value).with_data(word(from)), vec![]));
            *nonce += 1;
        }
        let hashes: Vec<B256> = txs.iter().map(|tx| here.send(tx)).collect();
        here.get("evm_mine", json!([]));
        for (tx, hash) in txs.iter().zip(hashes) {
            let receipt = here.get("eth_getTransactionReceipt", json!([hash]));
            assert_eq!(receipt["status"], there.include(tx)["status"], "{hash}");
        }
        let same =
            |method: &str, params: Value| assert_eq!(here.get(method, params.clone()), there.get(method, params));
        same("eth_getStorageAt", json!([counter, "0x0", "latest"]));
        (0..20).for_each(|number| same("eth_getBalance", json!([fresh(number), "latest"])));
        (0..FUNDED).for_each(|sender| same("eth_getTransactionCount", json!([address(sender), "latest"])));
    }
    node.stop();
    remote.stop();
}

#[test]
fn failures_of_the_other_node_pass_or_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (remote, there, [_, counter]) = other(&folder.path().join("remote"));
    let proxy = Proxy::start(remote.address());
    let mut settings = config_of(folder.path(), &proxy.url, None);
    settings.timeout = Duration::from_millis(700);
    let (node, here) = start(&above(&folder.path().join("fork"), &Remote::open(&settings).expect("a base")));
    let error = |code: i64, message: &str| {
        let body = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } });
        Fate::Body(body.to_string())
    };
    let wrong = |result: Value| {
        let one = move |id: u64| json!({ "jsonrpc": "2.0", "id": id, "result": result.clone() });
        Fate::Body(Value::from((0..3).map(one).collect::<Vec<_>>()).to_string())
    };
    // (what happens, what the error says, whether one such failure passes)
    let faults: Vec<(Fate, &str, bool)> = vec![
        (Fate::Status(429, "Retry-After: 0\r\n", "slow down"), "HTTP status 429", true),
        (Fate::Status(503, "", "<html>maintenance</html>"), "maintenance", true),
        (Fate::Status(500, "", ""), "HTTP status 500", true),
        (Fate::Status(401, "", "no such key"), "no such key", false),
        (Fate::Late(Duration::from_millis(1_500)), "no answer within 700ms", true),
        (Fate::Closed, "does not answer", true),
        (Fate::Torn, "does not answer", true),
        (Fate::Body("[{\"id\":0,".into()), "EOF", true),
        (Fate::Body("[]".into()), "lacks answers", true),
        (wrong(json!({ "a": 1 })), "cannot be used", false),
        (wrong(json!(null)), "cannot be used: invalid", false),
        (wrong(json!("0x1g")), "cannot be used", false),
        (error(-32005, "daily limit"), "daily limit", true),
        (error(-32000, "missing trie node 12ab"), "missing trie node 12ab", false),
        (error(-32000, "header for hash not found"), "header for hash not found", false),
    ];
    let mut fresh = (1u64..).map(|number| Address::from_word(B256::from(U256::from(0xface_0000 + number))));
    for (fate, says, passes) in faults {
        // Once: it is tried again. Always: the error says what the other node has said, and the node goes on.
        let (account, first) = (fresh.next().expect("an address"), fate.clone());
        proxy.play(move |place, _| if place == 0 { first.clone() } else { Fate::Pass });
        let answer = here.ask("eth_getBalance", json!([account, "latest"]));
        assert_eq!(answer.get("error").is_none(), passes, "{fate:?} once: {answer}");
        let (account, every) = (fresh.next().expect("an address"), fate.clone());
        proxy.play(move |_, _| every.clone());
        let (code, text) = here.error("eth_getBalance", json!([account, "latest"]));
        assert!(code == -32000 && text.contains(says) && text.contains("http://127.0.0.1"), "{fate:?}: {code} {text}");
        assert!(!text.contains("/key"), "paths hold keys: {text}");
        proxy.play(|_, _| Fate::Pass);
        assert_eq!(here.get("eth_getBalance", json!([account, "latest"])), json!("0x0"), "{fate:?} is over");
    }
    // A transaction of a sender that cannot be read is refused, with the reason; the same one is taken later.
    proxy.play(|_, _| Fate::Status(502, "", "bad gateway"));
    let first = signed(2, &Call::to(1, 1, counter, 0), vec![]);
    let (_, text) = here.error("eth_sendRawTransaction", json!([first]));
    assert!(text.contains("bad gateway"), "{text}");
    proxy.play(|_, _| Fate::Pass);
    assert_eq!(here.include(&first)["status"], json!("0x1"));
    // A block whose keys cannot be read is made once they can: the hash is true meanwhile.
    let to = fresh.next().expect("an address");
    proxy.play(|_, _| Fate::Status(502, "", "bad gateway"));
    let hash = here.send(&signed(2, &Call::to(1, 2, to, 1), vec![]));
    assert!(here.get("eth_getTransactionReceipt", json!([hash])).is_null());
    proxy.play(|_, _| Fate::Pass);
    let begun = Instant::now();
    while here.get("eth_getTransactionReceipt", json!([hash])).is_null() {
        assert!(begun.elapsed() < crate::kit::PATIENCE, "no block");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(here.get("eth_getBalance", json!([to, "latest"])), json!("0x1"));
    // The parent's hash is the header's, and further ones are what the headers lead to, whatever the other node says.
    // The hash follows a zero byte: code that begins with 0xef, as one hash of 256 does, may not be created.
    let hash_of = |number: u8| {
        let code = [0x60, number, 0x40, 0x60, 0x01, 0x52, 0x60, 0x21, 0x5f, 0xf3];
        json!([{ "data": Bytes::from(code) }])
    };
    let code_of = |hash: &Value| json!(format!("0x00{}", &hash.as_str().expect("a hash")[2..]));
    let truth = |number: u64| there.get("eth_getBlockByNumber", json!([format!("{number:#x}"), false]));
    let lie = {
        let mut block = truth(5);
        block["parentHash"] = json!(B256::repeat_byte(9));
        block
    };
    proxy.play(move |_, request| match request["method"].as_str() {
        Some("eth_getBlockByNumber") => {
            Fate::Body(json!({ "jsonrpc": "2.0", "id": request["id"], "result": lie }).to_string())
        }
        _ => Fate::Pass,
    });
    assert_eq!(here.get("eth_call", hash_of(5)), code_of(&truth(5)["hash"]));
    let (_, text) = here.error("eth_call", hash_of(4));
    assert!(text.contains("another block 5"), "{text}");
    proxy.play(|_, _| Fate::Pass);
    (2..=4).rev().for_each(|number| {
        assert_eq!(here.get("eth_call", hash_of(number)), code_of(&truth(number.into())["hash"]));
    });
    // What is below the chain has the other node's code and text.
    let refused = here.error("eth_call", json!([{ "to": counter, "gas": "0x1" }, "0x2"]));
    assert_eq!(refused, there.error("eth_call", json!([{ "to": counter, "gas": "0x1" }, "0x2"])));
    node.stop();
    remote.stop();
}

#[test]
fn a_start_says_what_is_wrong_with_the_other_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let (remote, there, _) = other(&folder.path().join("remote"));
    let proxy = Proxy::start(remote.address());
    let open = |url: &str, block| Remote::open(&config_of(folder.path(), url, block)).expect_err("no base").to_string();
    assert!(open(&proxy.url, Some(99)).contains("has not got block 99"));
    assert!(open("http://127.0.0.1:1", None).contains("does not answer eth_chainId, after 3 tries"));
    assert!(open("ftp://node", None).contains("http"));
    proxy.play(|_, _| Fate::Status(404, "", "nothing here"));
    assert!(open(&proxy.url, None).contains("nothing here"));
    let header = there.get("eth_getBlockByNumber", json!(["latest", false]));
    let mut old = header;
    old.as_object_mut().expect("a block").remove("baseFeePerGas");
    for (block, says) in
        [(old, "before London"), (json!({ "number": "0x1" }), "cannot be used"), (json!([]), "cannot be used")]
    {
        proxy.play(move |_, request| match request["method"].as_str() {
            Some("eth_getBlockByNumber") => {
                Fate::Body(json!({ "jsonrpc": "2.0", "id": request["id"], "result": block }).to_string())
            }
            _ => Fate::Pass,
        });
        let why = open(&proxy.url, None);
        assert!(why.contains(says), "{why}");
    }
    // A node that knows no hashes as arguments is asked by height.
    proxy.play(|_, request| {
        let by_hash = request.to_string().contains("blockHash");
        let error =
            json!({ "jsonrpc": "2.0", "id": request["id"], "error": { "code": -32602, "message": "invalid block" } });
        if by_hash { Fate::Body(error.to_string()) } else { Fate::Pass }
    });
    let base = base(folder.path(), &proxy.url, None);
    let (node, here) = start(&above(&folder.path().join("fork"), &base));
    assert_eq!(
        here.get("eth_getBalance", json!([address(1), "latest"])),
        there.get("eth_getBalance", json!([address(1), "latest"]))
    );
    node.stop();
    remote.stop();
}
