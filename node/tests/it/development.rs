//! A node for development: receipts at once, state and time that its operator sets, snapshots, accounts that it signs for.

use crate::{
    answers::COUNTER,
    kit::{CHAIN, Call, Client, PATIENCE, Socket, address, config, deploy, development, instant, named, signed},
};
use alloy_primitives::{Address, B256, Bytes, Signature, U256, eip191_hash_message, hex, keccak256};
use phalanx::alloy::genesis::GenesisAccount;
use phalanx_node::{BlockSource, DEV_MNEMONIC, Node, Production, dev_accounts};
use serde_json::{Value, json};
use std::path::Path;

/// A node for development in a folder, and its client.
fn start(folder: &Path) -> (Node, Client) {
    let node = Node::start(&development(folder)).expect("a node");
    let client = Client::new(node.address());
    (node, client)
}

fn first() -> Address {
    dev_accounts(DEV_MNEMONIC, 1).expect("a mnemonic")[0].address
}

fn height(client: Client) -> u128 {
    client.quantity("eth_blockNumber", json!([]))
}

fn time(client: Client) -> u128 {
    let block = client.get("eth_getBlockByNumber", json!(["latest", false]));
    u128::from_str_radix(block["timestamp"].as_str().expect("a time").trim_start_matches("0x"), 16).expect("a time")
}

fn pay(from: Address, to: Address, value: u64) -> Value {
    json!([{ "from": from, "to": to, "value": U256::from(value) }])
}

#[test]
fn a_receipt_is_there_when_the_hash_is_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let transfer = |from, nonce| signed(2, &Call::to(from, nonce, address(9), 1), vec![]);
    let receipt = |hash: &Value| client.get("eth_getTransactionReceipt", json!([hash]));
    for nonce in 0..20 {
        assert!(!receipt(&json!(client.send(&transfer(0, nonce)))).is_null(), "nonce {nonce}");
    }
    // One behind a gap answers at once, and is there with the one that fills it.
    let queued = json!(client.send(&transfer(1, 1)));
    assert!(receipt(&queued).is_null());
    assert!(!receipt(&json!(client.send(&transfer(1, 0)))).is_null());
    // It is in the same block, or in the next one.
    while receipt(&queued).is_null() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    // A batch waits for all of its own, which share blocks.
    let before = height(client);
    let call = |nonce| json!({ "jsonrpc": "2.0", "id": nonce, "method": "eth_sendRawTransaction", "params": [transfer(2, nonce)] });
    let batch = Value::from((0..50).map(call).collect::<Vec<_>>());
    let (_, body) = client.post(batch.to_string().as_bytes()).expect("an answer");
    let answers: Vec<Value> = serde_json::from_str(&body).expect("a batch");
    assert!(answers.iter().all(|answer| !receipt(&answer["result"]).is_null()), "{body}");
    assert!(height(client) - before < 50, "they share blocks");
    // Senders beside each other wait for their own.
    let senders: Vec<_> = (3..11u64)
        .map(|from| {
            std::thread::spawn(move || {
                for nonce in 0..10 {
                    let hash = client.send(&signed(2, &Call::to(from, nonce, address(9), 1), vec![]));
                    assert!(!client.get("eth_getTransactionReceipt", json!([hash])).is_null(), "{from}, {nonce}");
                }
            })
        })
        .collect();
    senders.into_iter().for_each(|sender| sender.join().expect("receipts"));
    node.stop();
}

/// The second of two has no funds until the first, which costs less than it might, is committed.
#[test]
fn what_a_block_makes_ready_gets_the_next_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config(folder.path(), Production::Instant);
    // One may cost 0.9 finney.
    let poor = GenesisAccount::default().with_balance(U256::from(1_400_000_000_000_000_u64));
    config.genesis.alloc.insert(address(0), poor);
    let node = Node::start(&config).expect("a node");
    let client = Client::new(node.address());
    let transfer = |nonce| signed(2, &Call::to(0, nonce, address(9), 1), vec![]);
    let call = |nonce| json!({ "jsonrpc": "2.0", "id": nonce, "method": "eth_sendRawTransaction", "params": [transfer(nonce)] });
    let (_, body) = client.post(json!([call(0), call(1)]).to_string().as_bytes()).expect("an answer");
    let answers: Vec<Value> = serde_json::from_str(&body).expect("a batch");
    let begun = std::time::Instant::now();
    for answer in answers {
        while client.get("eth_getTransactionReceipt", json!([answer["result"]])).is_null() {
            assert!(begun.elapsed() < PATIENCE, "{body}");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
    node.stop();
}

#[test]
fn an_estimate_without_a_block_is_for_the_next_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    // TIMESTAMP ISZERO PUSH1 9 JUMPI PUSH1 1 PUSH0 SSTORE JUMPDEST STOP: the genesis has time zero.
    let to = Address::repeat_byte(0xc0);
    let over = json!({ to.to_string(): { "code": "0x421560095760015f555b00" } });
    let estimate = |block: Value| client.quantity("eth_estimateGas", json!([{ "to": to }, block, over]));
    assert!(estimate(json!("latest")) < 25_000);
    assert!(estimate(Value::Null) > 40_000);
    assert_eq!(estimate(Value::Null), estimate(json!("pending")));
    node.stop();
}

#[test]
fn other_nodes_say_what_methods_of_development_need() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    for method in ["evm_mine", "anvil_setBalance", "hardhat_impersonateAccount", "evm_unheard", "personal_sign"] {
        let (code, text) = client.error(method, json!([]));
        assert!(code == -32601 && text.contains("--dev"), "{method}: {text}");
    }
    assert_eq!(client.get("eth_accounts", json!([])), json!([]));
    let (_, text) = client.error("eth_sendTransaction", pay(address(0), address(1), 1));
    assert!(text.contains("unknown account"), "{text}");
    assert!(client.get("web3_clientVersion", json!([])).as_str().expect("a name").starts_with("phalanx/"));
    let (_, text) = client.error("eth_sendRawTransaction", json!([named(address(0), 0, address(1))]));
    assert!(text.contains("invalid sender"), "a signature that names its sender is none here: {text}");
    node.stop();
    let mut settings = config(folder.path(), Production::Instant);
    settings.rpc.namespaces.push("evm".into());
    assert!(Node::start(&settings).is_err_and(|error| error.to_string().contains("--dev")));
    settings = development(folder.path());
    settings.genesis = config(folder.path(), Production::Instant).genesis;
    assert!(Node::start(&settings).is_err_and(|error| error.to_string().contains("development")));
}

#[test]
fn what_is_set_is_part_of_the_chain_for_restarts_and_followers() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let (node, client) = start(folders[0].path());
    let (bare, contract) = (Address::repeat_byte(0xb0), Address::repeat_byte(0xc1));
    let before = height(client);
    client.get("anvil_setBalance", json!([bare, "0xde0b6b3a7640000"]));
    client.get("hardhat_setNonce", json!([bare, "0x9"]));
    // SLOAD of slot 0, returned.
    client.get("hardhat_setCode", json!([contract, "0x5f545f5260205ff3"]));
    client.get("anvil_setStorageAt", json!([contract, "0x0", B256::with_last_byte(99)]));
    client.get("hardhat_setStorageAt", json!([bare, "0x5", B256::with_last_byte(7)]));
    let looks = |client: Client, count: u128| {
        assert_eq!(client.quantity("eth_getBalance", json!([bare, "latest"])), 10u128.pow(18));
        assert_eq!(client.quantity("eth_getTransactionCount", json!([bare, "latest"])), 9);
        assert_eq!(client.get("eth_call", json!([{ "to": contract }, "latest"])), json!(B256::with_last_byte(99)));
        assert_eq!(client.get("eth_getStorageAt", json!([bare, "0x5", "latest"])), json!(B256::with_last_byte(7)));
        assert_eq!(height(client), count, "each is a block");
    };
    looks(client, before + 5);
    assert_eq!(client.quantity("eth_getBalance", json!([bare, "earliest"])), 0, "the past has what it had");
    // An account with storage and nothing else does not exist by EIP-161: its nonce is 1.
    let empty = Address::repeat_byte(0xe0);
    client.get("anvil_setStorageAt", json!([empty, "0x1", "0x2"]));
    assert_eq!(client.quantity("eth_getTransactionCount", json!([empty, "latest"])), 1);
    assert_eq!(client.error("anvil_setCode", json!([bare, "0xef010012"])).0, -32602, "half a delegation");
    // A node that follows executes it again, and compares every root.
    let mut settings = development(folders[1].path());
    settings.rpc.namespaces.retain(|name| !["evm", "anvil", "hardhat", "personal"].contains(&&name[..]));
    (settings.development, settings.production) = (None, Production::Off);
    settings.beneficiary = Address::ZERO;
    settings.source = BlockSource::Followed(format!("http://{}", node.address()));
    let follower = Node::start(&settings).expect("a node");
    let its = Client::new(follower.address());
    client.get("eth_sendTransaction", pay(first(), bare, 1));
    client.get("anvil_setBalance", json!([bare, "0xde0b6b3a7640000"]));
    let newest = height(client);
    let begun = std::time::Instant::now();
    while height(its) < newest {
        assert!(begun.elapsed().as_secs() < 60, "it follows");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    looks(its, newest);
    follower.stop();
    node.stop();
    let (node, client) = start(folders[0].path());
    looks(client, newest);
    client.get("eth_sendTransaction", pay(first(), bare, 1));
    node.stop();
}

#[test]
fn a_snapshot_is_gone_back_to_once_with_all_that_was_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path());
    let to = Address::repeat_byte(0xaa);
    let snapshot = || client.get("evm_snapshot", json!([]));
    let revert = |number: &Value| client.get("evm_revert", json!([number])) == json!(true);
    client.get("eth_sendTransaction", pay(first(), to, 1));
    let (outer, at) = (snapshot(), height(client));
    let hash = client.get("eth_sendTransaction", pay(first(), to, 10));
    let inner = snapshot();
    client.get("anvil_setBalance", json!([to, "0x64"]));
    client.get("evm_increaseTime", json!([5000]));
    client.get("anvil_mine", json!(["0x3"]));
    assert!(revert(&inner));
    assert_eq!(client.quantity("eth_getBalance", json!([to, "latest"])), 11);
    assert!(!revert(&inner), "it is used up");
    client.get("anvil_setBalance", json!([to, "0x64"]));
    assert!(revert(&outer) && !revert(&outer) && !revert(&json!("0x63")));
    assert_eq!((height(client), client.quantity("eth_getBalance", json!([to, "latest"]))), (at, 1));
    for method in ["eth_getTransactionReceipt", "eth_getTransactionByHash"] {
        assert!(client.get(method, json!([hash])).is_null(), "{method}");
    }
    // The same again is another block with the same transaction.
    assert_eq!(client.get("eth_sendTransaction", pay(first(), to, 10)), hash);
    assert_eq!(client.quantity("eth_getBalance", json!([to, "latest"])), 11);
    assert_eq!(height(client), at + 1);
    // What waited then waits again, and what came later does not.
    client.get("evm_setAutomine", json!([false]));
    let waits = client.get("eth_sendTransaction", pay(first(), to, 5));
    let waiting = snapshot();
    client.get("eth_sendTransaction", pay(first(), to, 6));
    client.get("evm_mine", json!([]));
    client.get("eth_sendTransaction", pay(first(), to, 7));
    assert!(revert(&waiting));
    assert_eq!(client.get("txpool_status", json!([])), json!({ "pending": "0x1", "queued": "0x0" }));
    client.get("evm_mine", json!([]));
    assert!(!client.get("eth_getTransactionReceipt", json!([waits])).is_null());
    assert_eq!(client.quantity("eth_getBalance", json!([to, "latest"])), 16);
    client.get("hardhat_reset", json!([]));
    assert_eq!((height(client), client.quantity("eth_getBalance", json!([to, "latest"]))), (0, 0));
    node.stop();
}

#[test]
fn logs_of_blocks_that_leave_the_chain_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path());
    let counter = client.include(&deploy(0, 0, &COUNTER))["contractAddress"].clone();
    let call = || {
        let hash = client.get("eth_sendTransaction", json!([{ "from": first(), "to": counter }]));
        client.get("eth_getTransactionReceipt", json!([hash]))["logs"][0].clone()
    };
    let removed = |log: &Value| {
        let mut log = log.clone();
        log["removed"] = json!(true);
        log
    };
    let mut socket = Socket::connect(node.address());
    let of_counter = json!({ "address": counter });
    let others = json!({ "address": address(9) });
    socket.ask(1, "eth_subscribe", json!(["logs", of_counter]));
    socket.ask(2, "eth_subscribe", json!(["logs", others]));
    let filter = |filter: &Value| client.get("eth_newFilter", json!([filter]));
    let (eager, late, elsewhere) = (filter(&of_counter), filter(&of_counter), filter(&others));
    let from_third = filter(&json!({ "address": counter, "fromBlock": "0x3" }));
    let changes = |name: &Value| client.get("eth_getFilterChanges", json!([name]));
    let snapshot = client.get("evm_snapshot", json!([]));
    let gone = [call(), call()];
    assert_eq!(changes(&eager), json!(gone));
    assert_eq!(changes(&from_third), json!([gone[1]]));
    // A block without logs, and one that the filter has not seen.
    client.get("evm_mine", json!([]));
    let unseen = call();
    assert_eq!(client.get("evm_revert", json!([snapshot])), json!(true));
    let came = call();
    assert_eq!(changes(&eager), json!([removed(&gone[0]), removed(&gone[1]), came]));
    assert_eq!(changes(&from_third), json!([removed(&gone[1])]), "nor is what it has not given");
    assert_eq!(changes(&late), json!([came]), "what it has not seen is not removed");
    assert_eq!(changes(&elsewhere), json!([]));
    let [one, two] = gone;
    let (last, all) = (removed(&unseen), [removed(&one), removed(&two)]);
    for expected in [one, two, unseen].into_iter().chain(all).chain([last, came]) {
        assert_eq!(socket.next().expect("a message")["params"]["result"], expected);
    }
    node.stop();
}

#[test]
fn blocks_and_what_waits_can_be_taken_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path());
    let to = Address::repeat_byte(0xaa);
    let hash = client.get("eth_sendTransaction", pay(first(), to, 1));
    let raw = client.get("eth_getRawTransactionByHash", json!([hash]));
    assert_eq!(client.get("eth_getRawTransactionByBlockNumberAndIndex", json!(["0x1", "0x0"])), raw);
    let block = client.get("eth_getBlockByNumber", json!(["0x1", false]));
    assert_eq!(client.get("eth_getRawTransactionByBlockHashAndIndex", json!([block["hash"], "0x0"])), raw);
    assert!(client.get("eth_getRawTransactionByBlockNumberAndIndex", json!(["0x1", "0x1"])).is_null());
    (0..3).for_each(|_| _ = client.get("eth_sendTransaction", pay(first(), to, 1)));
    assert!(client.get("anvil_rollback", json!(["0x2"])).is_null());
    assert_eq!((height(client), client.quantity("eth_getBalance", json!([to, "latest"]))), (2, 2));
    client.get("anvil_rollback", json!([]));
    assert_eq!(height(client), 1);
    assert_eq!(client.error("anvil_rollback", json!([2])).0, -32602);
    assert_eq!(client.get("eth_mining", json!([])), json!(true));
    client.get("evm_setAutomine", json!([false]));
    assert_eq!(client.get("eth_mining", json!([])), json!(false));
    let other = dev_accounts(DEV_MNEMONIC, 2).expect("a mnemonic")[1].address;
    for from in [first(), first(), other] {
        client.get("eth_sendTransaction", pay(from, to, 1));
    }
    client.get("anvil_removePoolTransactions", json!([first()]));
    assert_eq!(client.get("txpool_status", json!([])), json!({ "pending": "0x1", "queued": "0x0" }));
    assert_eq!(client.get("anvil_setLoggingEnabled", json!([false])), json!(true));
    assert_eq!(client.error("hardhat_setMinGasPrice", json!(["0x1"])).0, -32602);
    assert_eq!(
        client.error("anvil_nothing", json!([])),
        (-32601, "Method not found".into()),
        "it has methods of development"
    );
    node.stop();
}

#[test]
fn a_chain_goes_back_further_than_block_hashes_reach() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path());
    // BLOCKHASH of the block before the newest, and of the one 200 blocks before.
    let code = hex!("600143034060c8430340185f5260205ff3");
    let contract = client.include(&deploy(0, 0, &code))["contractAddress"].clone();
    client.get("anvil_mine", json!([300]));
    let both = || client.get("eth_call", json!([{ "to": contract }, "latest"]));
    let (before, snapshot) = (both(), client.get("evm_snapshot", json!([])));
    assert_ne!(before, json!(B256::ZERO));
    client.get("anvil_mine", json!([400]));
    let old = client.get("eth_getBlockByNumber", json!(["0x5", false]));
    assert_eq!(
        client.quantity("eth_getBalance", json!([first(), "0x1"])),
        10_000 * 10u128.pow(18),
        "old states are there"
    );
    assert_eq!(client.get("evm_revert", json!([snapshot])), json!(true));
    assert_eq!((both(), client.get("eth_getBlockByNumber", json!(["0x5", false]))), (before.clone(), old));
    client.get("anvil_mine", json!([1]));
    assert_ne!(both(), before);
    node.stop();
    let (node, client) = start(folder.path());
    assert_eq!(height(client), 302);
    client.get("eth_sendTransaction", pay(first(), address(1), 1));
    node.stop();
}

#[test]
fn time_fees_and_limits_are_those_that_are_set() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path());
    let block = || client.get("eth_getBlockByNumber", json!(["latest", false]));
    client.get("evm_mine", json!([]));
    let begun = time(client);
    client.get("evm_increaseTime", json!(["0xe10"]));
    client.get("evm_mine", json!([]));
    assert!(time(client) >= begun + 3600);
    let far = time(client) + 100_000;
    client.get("evm_setNextBlockTimestamp", json!([far]));
    client.get("anvil_setBalance", json!([first(), "0xffffffffffffffffffff"]));
    let pending = client.get("eth_getBlockByNumber", json!(["pending", false]));
    assert_eq!(pending["timestamp"], json!(format!("0x{far:x}")), "calls on the pending block have it");
    client.get("evm_mine", json!([]));
    assert_eq!(time(client), far, "setting a balance has not used it up");
    client.get("evm_mine", json!([]));
    assert!((far + 1..far + 60).contains(&time(client)), "the clock goes on from there");
    assert_eq!(client.error("evm_setNextBlockTimestamp", json!([1])).0, -32602);
    assert_eq!(client.error("evm_mine", json!([far])).0, -32602);
    let at = time(client);
    client.get("hardhat_mine", json!(["0x3", "0x64"]));
    assert!((at + 201..at + 260).contains(&time(client)), "two intervals");
    assert_eq!(client.error("hardhat_mine", json!(["0xffffffff"])).0, -32000);
    client.get("anvil_setBlockTimestampInterval", json!([7]));
    let at = time(client);
    client.get("evm_mine", json!([{ "blocks": 2 }]));
    assert_eq!(time(client), at + 14);
    assert_eq!(client.get("anvil_removeBlockTimestampInterval", json!([])), json!(true));

    client.get("hardhat_setNextBlockBaseFeePerGas", json!(["0x77359400"]));
    let (coinbase, randao) = (Address::repeat_byte(0xcb), B256::with_last_byte(5));
    client.get("hardhat_setCoinbase", json!([coinbase]));
    client.get("hardhat_setPrevRandao", json!([randao]));
    client.get("evm_setBlockGasLimit", json!(["0x1c9c380"]));
    client.get("eth_sendTransaction", pay(first(), address(1), 1));
    let made = block();
    assert_eq!((&made["baseFeePerGas"], &made["gasLimit"]), (&json!("0x77359400"), &json!("0x1c9c380")));
    assert_eq!((&made["miner"], &made["mixHash"]), (&json!(coinbase), &json!(randao)));
    client.get("evm_mine", json!([]));
    assert_ne!(block()["baseFeePerGas"], json!("0x77359400"), "that was for one block");
    assert_eq!(block()["gasLimit"], json!("0x1c9c380"), "and this is for all");
    assert_eq!(client.error("evm_setBlockGasLimit", json!(["0x1"])).0, -32602);
    // By the clock, beside or instead of transactions.
    assert_eq!(client.get("hardhat_getAutomine", json!([])), json!(true));
    client.get("evm_setAutomine", json!([false]));
    assert_eq!(client.get("hardhat_getAutomine", json!([])), json!(false));
    let hash = client.get("eth_sendTransaction", pay(first(), address(1), 1));
    assert!(client.get("eth_getTransactionReceipt", json!([hash])).is_null());
    let dropped = client.get("eth_sendTransaction", pay(first(), address(1), 2));
    assert_eq!(client.get("anvil_dropTransaction", json!([dropped])), json!(true));
    assert_eq!(client.get("anvil_dropTransaction", json!([dropped])), json!(false));
    client.get("evm_setIntervalMining", json!([1]));
    let begun = std::time::Instant::now();
    while client.get("eth_getTransactionReceipt", json!([hash])).is_null() {
        assert!(begun.elapsed().as_secs() < 60, "a block comes");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    client.get("evm_setIntervalMining", json!([0]));
    assert!(client.get("eth_getTransactionByHash", json!([dropped])).is_null());
    node.stop();
}

#[test]
fn the_node_acts_for_accounts_without_keys_as_long_as_it_is_told_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path());
    let (contract, to) = (Address::repeat_byte(0xc2), Address::repeat_byte(0xdd));
    client.get("anvil_setBalance", json!([contract, "0xde0b6b3a7640000"]));
    client.get("anvil_setCode", json!([contract, "0x00"]));
    let refused = || client.error("eth_sendTransaction", pay(contract, to, 7)).1.contains("unknown account");
    assert!(refused());
    client.get("hardhat_impersonateAccount", json!([contract]));
    let hash = client.get("eth_sendTransaction", pay(contract, to, 7));
    let receipt = client.get("eth_getTransactionReceipt", json!([hash]));
    assert_eq!((&receipt["from"], &receipt["status"]), (&json!(contract), &json!("0x1")));
    let tx = client.get("eth_getTransactionByHash", json!([hash]));
    assert_eq!((&tx["from"], &tx["r"]), (&json!(contract), &json!("0x0")));
    assert_eq!(client.quantity("eth_getBalance", json!([to, "latest"])), 7);
    // A trace runs it again.
    let trace = client.get("debug_traceTransaction", json!([hash, { "tracer": "callTracer" }]));
    assert_eq!(trace["from"], json!(contract));
    assert_eq!(client.get("hardhat_stopImpersonatingAccount", json!([contract])), json!(true));
    assert!(refused());
    let hash = client.send(&named(contract, 1, to));
    assert_eq!(
        client.get("eth_getTransactionReceipt", json!([hash]))["from"],
        json!(contract),
        "the bytes alone say it"
    );
    client.get("anvil_autoImpersonateAccount", json!([true]));
    client.get("eth_sendTransaction", pay(contract, to, 1));
    client.get("anvil_autoImpersonateAccount", json!([false]));
    assert!(refused());
    assert_eq!(client.quantity("eth_getBalance", json!([to, "latest"])), 9);
    node.stop();
}

#[test]
fn accounts_sign_what_wallets_sign() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = start(folder.path());
    let accounts: Vec<Address> = serde_json::from_value(client.get("eth_accounts", json!([]))).expect("accounts");
    assert_eq!((accounts.len(), accounts[0]), (3, first()));
    let recovered = |signature: Value, hash: B256| {
        let bytes: Bytes = serde_json::from_value(signature).expect("bytes");
        Signature::from_raw(&bytes)
            .and_then(|signature| signature.recover_address_from_prehash(&hash))
            .expect("a signer")
    };
    let message = Bytes::from_static(b"hello");
    let hash = eip191_hash_message(&message);
    assert_eq!(recovered(client.get("personal_sign", json!([message, accounts[1]])), hash), accounts[1]);
    assert_eq!(recovered(client.get("eth_sign", json!([accounts[2], message])), hash), accounts[2]);
    assert!(client.error("personal_sign", json!([message, address(3)])).1.contains("unknown account"));
    let typed = json!({
        "types": {
            "EIP712Domain": [{ "name": "name", "type": "string" }, { "name": "chainId", "type": "uint256" }],
            "Mail": [{ "name": "to", "type": "address" }, { "name": "text", "type": "string" }],
        },
        "primaryType": "Mail", "domain": { "name": "Post", "chainId": CHAIN },
        "message": { "to": accounts[1], "text": "hello" },
    });
    // EIP-712 by hand.
    let of = |text: &str| keccak256(text);
    let domain = [of("EIP712Domain(string name,uint256 chainId)"), of("Post"), U256::from(CHAIN).into()].concat();
    let mail = [of("Mail(address to,string text)"), accounts[1].into_word(), of("hello")].concat();
    let digest = keccak256([&[0x19, 1][..], keccak256(domain).as_slice(), keccak256(mail).as_slice()].concat());
    for form in [typed.clone(), json!(typed.to_string())] {
        assert_eq!(recovered(client.get("eth_signTypedData_v4", json!([accounts[0], form])), digest), accounts[0]);
    }
    // A signed transaction is one that can be sent.
    let raw = client.get("eth_signTransaction", json!([{ "from": accounts[1], "to": address(1), "value": "0x1" }]));
    let hash = client.get("eth_sendRawTransaction", json!([raw]));
    assert_eq!(client.get("eth_getTransactionReceipt", json!([hash]))["from"], json!(accounts[1]));
    // Without a sender the first account sends, of every type that the fields make.
    for fields in [
        json!({ "to": address(1) }),
        json!({ "to": address(1), "gasPrice": "0x12a05f200" }),
        json!({ "to": address(1), "accessList": [], "maxFeePerGas": "0x12a05f200" }),
        json!({ "data": "0x5f5ff3" }),
    ] {
        let hash = client.get("eth_sendTransaction", json!([fields]));
        let receipt = client.get("eth_getTransactionReceipt", json!([hash]));
        assert_eq!((&receipt["from"], &receipt["status"]), (&json!(accounts[0]), &json!("0x1")), "{fields}");
    }
    let (code, _) = client.error("eth_sendTransaction", json!([{ "data": "0x5f5ffd" }]));
    assert_eq!(code, 3, "it would revert");
    // Many at once get nonces of their own.
    let senders: Vec<_> = (0..8)
        .map(|_| std::thread::spawn(move || client.get("eth_sendTransaction", pay(first(), address(1), 1))))
        .collect();
    let hashes: Vec<Value> = senders.into_iter().map(|sender| sender.join().expect("a hash")).collect();
    assert!(hashes.iter().all(|hash| !client.get("eth_getTransactionReceipt", json!([hash])).is_null()));
    assert!(client.get("web3_clientVersion", json!([])).as_str().expect("a name").starts_with("anvil/"));
    let info = client.get("anvil_nodeInfo", json!([]));
    assert_eq!(info["environment"]["chainId"], json!(CHAIN));
    assert_eq!(client.get("hardhat_metadata", json!([]))["chainId"], json!(CHAIN));
    node.stop();
}

#[test]
fn a_dump_of_one_chain_is_loaded_by_another() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let (node, client) = start(folders[0].path());
    // SLOAD of slot 0, returned; created by a transaction, and its slot is set.
    let contract = client.include(&deploy(0, 0, &hex!("5f545f5260205ff3")))["contractAddress"].clone();
    client.get("anvil_setStorageAt", json!([contract, "0x0", "0x2a"]));
    let dump = client.get("anvil_dumpState", json!([]));
    let nonce = client.quantity("eth_getTransactionCount", json!([address(0), "latest"]));
    node.stop();
    let (node, client) = start(folders[1].path());
    client.get("anvil_loadState", json!([dump]));
    assert_eq!(client.get("eth_call", json!([{ "to": contract }, "latest"])), json!(B256::with_last_byte(42)));
    assert_eq!(client.quantity("eth_getTransactionCount", json!([address(0), "latest"])), nonce);
    let code = client.get("eth_getCode", json!([contract, "latest"]));
    assert_eq!(code, json!("0x5f545f5260205ff3"));
    for wrong in ["0x", "0x7b7d", "0x1f8b08", "0x00"] {
        assert_eq!(client.error("anvil_loadState", json!([wrong])).0, -32602, "{wrong}");
    }
    node.stop();
}

#[test]
fn a_longer_code_is_deployed_where_the_chain_permits_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = development(folder.path());
    settings.genesis.config.extra_fields.insert("phalanxCodeLimit".into(), 30_000.into());
    let node = Node::start(&settings).expect("a node");
    let client = Client::new(node.address());
    // PUSH2 length, PUSH0, RETURN: as many zeros as the length says.
    let create = |len: u16| format!("0x61{len:04x}5ff3");
    let send = |len| json!([{ "data": create(len), "gas": "0xf42400" }]);
    let receipt = |hash: Value| client.get("eth_getTransactionReceipt", json!([hash]));
    assert_eq!(receipt(client.get("eth_sendTransaction", send(30_000)))["status"], json!("0x1"));
    assert_eq!(receipt(client.get("eth_sendTransaction", send(30_001)))["status"], json!("0x0"));
    node.stop();
    settings.genesis.config.extra_fields.insert("phalanxCodeLimit".into(), "many".into());
    assert!(Node::start(&settings).is_err());
}
