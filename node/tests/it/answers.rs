//! Answers compared with values that stock revm and alloy compute, field by field, at every height.

use crate::kit::{CHAIN, Call, Client, FUNDED, Reference, address, authorize, deploy, genesis, instant, signed};
use alloy_consensus::{
    Eip658Value, Header, Receipt, ReceiptEnvelope, ReceiptWithBloom, Transaction as _, TxEnvelope,
    proofs::{calculate_receipt_root, calculate_transaction_root},
};
use alloy_eips::{Decodable2718 as _, Encodable2718 as _, eip7928::AccountChanges};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, hex, keccak256};
use alloy_rlp::Decodable as _;
use phalanx::revm::{context::TxEnv, context_interface::result::ExecutionResult};
use serde_json::{Value, json};

/// Increments slot 0, logs the new value under its caller, and returns it. With calldata it reverts with that.
pub(crate) const COUNTER: [u8; 31] =
    hex!("36601757" "5f54600101805f555f52" "3360205fa1" "60205ff3" "5b" "365f5f37" "365ffd");

fn quantity(number: impl Into<U256>) -> String {
    format!("{:#x}", number.into())
}

/// A chain with every type of transaction, a contract, logs, a revert, a delegation and a replaced price.
pub(crate) fn build(client: &Client) -> Address {
    let created = client.include(&deploy(0, 0, &COUNTER));
    let counter: Address = serde_json::from_value(created["contractAddress"].clone()).expect("a contract");
    for tx_type in [0, 1, 2] {
        client.include(&signed(tx_type, &Call::to(1, tx_type.into(), counter, 0), vec![]));
        client.include(&signed(tx_type, &Call::to(2, tx_type.into(), address(3), 5), vec![]));
    }
    client.include(&signed(2, &Call::to(1, 3, counter, 0).with_data(vec![1, 2, 3]), vec![]));
    client.include(&signed(3, &Call::to(4, 0, address(5), 0), vec![]));
    client.include(&signed(4, &Call::to(5, 0, address(6), 0), vec![authorize(6, 0, counter)]));
    client.include(&signed(2, &Call::to(5, 1, address(6), 0), vec![]));
    // Several transactions of one block: a gap of nonces holds back those behind it.
    let waiting: Vec<Bytes> = (1..6)
        .map(|nonce| signed(2, &Call::to(7, nonce, counter, 0).with_tip(u128::from(nonce) * 100), vec![]))
        .collect();
    waiting.iter().for_each(|tx| _ = client.send(tx));
    client.include(&signed(2, &Call::to(7, 0, address(8), 1), vec![]));
    client.include(&signed(2, &Call::to(7, 6, address(8), 1), vec![]));
    counter
}

/// A block as the node answers it, decoded.
struct Answered {
    json: Value,
    header: Header,
    hash: B256,
    raw: Vec<Bytes>,
    txs: Vec<TxEnvelope>,
}

fn answered(client: &Client, height: u64) -> Answered {
    let json = client.get("eth_getBlockByNumber", json!([quantity(U256::from(height)), true]));
    let block: alloy_rpc_types_eth::Block = serde_json::from_value(json.clone()).expect("alloy reads it");
    let raw: Vec<Bytes> = json["transactions"]
        .as_array()
        .expect("transactions")
        .iter()
        .map(|tx| {
            serde_json::from_value(client.get("eth_getRawTransactionByHash", json!([tx["hash"]]))).expect("bytes")
        })
        .collect();
    let txs = raw.iter().map(|tx| TxEnvelope::decode_2718_exact(tx).expect("a transaction")).collect();
    Answered { hash: block.header.hash, header: block.header.inner, raw, txs, json }
}

fn sender(tx: &TxEnvelope) -> Address {
    use alloy_consensus::transaction::SignerRecoverable as _;
    tx.recover_signer().expect("signed")
}

/// Receipts by alloy, from results of revm.
fn receipts(txs: &[TxEnvelope], results: &[ExecutionResult]) -> Vec<ReceiptEnvelope> {
    let mut cumulative_gas_used = 0;
    let receipt = |(tx, result): (&TxEnvelope, &ExecutionResult)| {
        cumulative_gas_used += result.tx_gas_used();
        let status = Eip658Value::Eip658(result.is_success());
        let receipt = Receipt { status, cumulative_gas_used, logs: result.logs().to_vec() };
        ReceiptEnvelope::from_typed(tx.tx_type(), ReceiptWithBloom::from(receipt))
    };
    txs.iter().zip(results).map(receipt).collect()
}

/// The receipt of a transaction as JSON, by hand.
fn expected_receipt(block: &Answered, index: usize, results: &[ExecutionResult], blob_fee: u128) -> Value {
    let (tx, result) = (&block.txs[index], &results[index]);
    let from = sender(tx);
    let cumulative: u64 = results[..=index].iter().map(ExecutionResult::tx_gas_used).sum();
    let first_log: usize = results[..index].iter().map(|result| result.logs().len()).sum();
    let logs: Vec<Value> = (first_log..)
        .zip(result.logs())
        .map(|(place, log)| {
            json!({
                "address": log.address, "topics": log.topics(), "data": log.data.data, "blockHash": block.hash,
                "blockNumber": quantity(U256::from(block.header.number)),
                "blockTimestamp": quantity(U256::from(block.header.timestamp)), "transactionHash": tx.hash(),
                "transactionIndex": quantity(U256::from(index)), "logIndex": quantity(U256::from(place)), "removed": false,
            })
        })
        .collect();
    let created = match tx.kind() {
        TxKind::Create => json!(from.create(tx.nonce())),
        TxKind::Call(_) => Value::Null,
    };
    let mut receipt = json!({
        "type": quantity(U256::from(tx.tx_type() as u8)), "status": if result.is_success() { "0x1" } else { "0x0" },
        "cumulativeGasUsed": quantity(U256::from(cumulative)), "logs": logs,
        "logsBloom": alloy_primitives::logs_bloom(result.logs()), "transactionHash": tx.hash(),
        "transactionIndex": quantity(U256::from(index)), "blockHash": block.hash,
        "blockNumber": quantity(U256::from(block.header.number)), "gasUsed": quantity(U256::from(result.tx_gas_used())),
        "effectiveGasPrice": quantity(U256::from(tx.effective_gas_price(block.header.base_fee_per_gas))),
        "from": from, "to": tx.to(), "contractAddress": created,
    });
    if let Some(gas) = tx.blob_gas_used() {
        receipt["blobGasUsed"] = json!(quantity(U256::from(gas)));
        receipt["blobGasPrice"] = json!(quantity(U256::from(blob_fee)));
    }
    receipt
}

#[test]
fn blocks_receipts_and_states_are_those_of_stock_revm() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let counter = build(&client);
    let mut reference = Reference::new(&genesis());
    let head = node.height();
    assert!(head >= 12, "{head} blocks");
    let mut parent = B256::ZERO;
    let (mut seen, mut kinds) = (0, std::collections::BTreeSet::new());
    for height in 0..=head {
        let block = answered(&client, height);
        let header = &block.header;
        assert_eq!((header.number, header.parent_hash), (height, parent), "at height {height}");
        parent = block.hash;
        assert_eq!(parent, header.hash_slow(), "at height {height}");
        let results = if height > 0 { reference.block(header, block.hash, &block.raw) } else { Vec::new() };
        // Roots and sums, by alloy.
        let receipts = receipts(&block.txs, &results);
        assert_eq!(header.receipts_root, calculate_receipt_root(&receipts), "at height {height}");
        assert_eq!(header.transactions_root, calculate_transaction_root(&block.txs));
        assert_eq!(header.gas_used, results.iter().map(ExecutionResult::tx_gas_used).sum::<u64>());
        assert_eq!(header.logs_bloom, alloy_primitives::logs_bloom(results.iter().flat_map(|result| result.logs())));
        let blob_gas: u64 = block.txs.iter().filter_map(|tx| tx.blob_gas_used()).sum();
        assert_eq!(header.blob_gas_used, Some(blob_gas));
        let whole = alloy_consensus::Block {
            header: header.clone(),
            body: alloy_consensus::BlockBody {
                transactions: block.txs.clone(),
                ommers: Vec::<Header>::new(),
                withdrawals: Some(Default::default()),
            },
        };
        let encoded = alloy_rlp::encode(&whole);
        assert_eq!(block.json["size"], json!(quantity(U256::from(encoded.len()))), "at height {height}");
        let at = json!([quantity(U256::from(height))]);
        assert_eq!(client.get("debug_getRawBlock", at.clone()), json!(Bytes::from(encoded)));
        assert_eq!(client.get("debug_getRawHeader", at.clone()), json!(Bytes::from(alloy_rlp::encode(header))));
        let raw: Vec<Bytes> = receipts.iter().map(|receipt| receipt.encoded_2718().into()).collect();
        assert_eq!(client.get("debug_getRawReceipts", at.clone()), json!(raw));
        // The same block by its name, with hashes alone.
        let by_hash = client.get("eth_getBlockByHash", json!([block.hash, false]));
        let hashes: Vec<B256> = block.txs.iter().map(|tx| *tx.hash()).collect();
        assert_eq!(by_hash["transactions"], json!(hashes));
        assert_eq!(by_hash["stateRoot"], json!(header.state_root));
        assert_eq!(client.quantity("eth_getBlockTransactionCountByNumber", at.clone()), hashes.len() as u128);
        assert_eq!(client.quantity("eth_getBlockTransactionCountByHash", json!([block.hash])), hashes.len() as u128);
        assert_eq!(client.get("eth_getUncleCountByBlockNumber", at.clone()), json!("0x0"));
        // Receipts and transactions, one by one.
        let blob_fee = header.blob_fee(alloy_eips::eip7840::BlobParams::osaka()).unwrap_or(1);
        let all = client.get("eth_getBlockReceipts", at.clone());
        for index in 0..block.txs.len() {
            let expected = expected_receipt(&block, index, &results, blob_fee);
            let hash = block.txs[index].hash();
            assert_eq!(client.get("eth_getTransactionReceipt", json!([hash])), expected);
            assert_eq!(all[index], expected);
            let place = quantity(U256::from(index));
            let tx = client.get("eth_getTransactionByHash", json!([hash]));
            assert_eq!(tx, block.json["transactions"][index]);
            assert_eq!(client.get("eth_getTransactionByBlockHashAndIndex", json!([block.hash, place])), tx);
            assert_eq!(client.get("eth_getTransactionByBlockNumberAndIndex", json!([at[0], place])), tx);
            assert_eq!(tx["from"], json!(sender(&block.txs[index])));
            assert_eq!(tx["blockHash"], json!(block.hash));
            assert_eq!(tx["transactionIndex"], json!(place));
            assert_eq!(tx["nonce"], json!(quantity(U256::from(block.txs[index].nonce()))));
            let read: TxEnvelope = serde_json::from_value(tx).expect("alloy reads it");
            assert_eq!(read, block.txs[index]);
            kinds.insert(block.txs[index].tx_type() as u8);
            seen += 1;
        }
        // Accounts after the block.
        for account in (0..FUNDED).map(address).chain([counter, Address::repeat_byte(0xfe), Address::repeat_byte(0x99)])
        {
            let known = reference.account(account);
            assert_eq!(
                client.get("eth_getBalance", json!([account, at[0]])),
                json!(quantity(known.balance)),
                "{account}"
            );
            let nonce = client.get("eth_getTransactionCount", json!([account, { "blockHash": block.hash }]));
            assert_eq!(nonce, json!(quantity(U256::from(known.nonce))), "{account}");
            let code = known.code.map(|code| code.original_bytes()).unwrap_or_default();
            assert_eq!(client.get("eth_getCode", json!([account, at[0]])), json!(code), "{account}");
        }
        for account in [counter, address(6)] {
            let word = B256::from(reference.slot(account, 0));
            assert_eq!(client.get("eth_getStorageAt", json!([account, "0x0", at[0]])), json!(word));
        }
        let call = TxEnv { caller: address(9), kind: TxKind::Call(counter), gas_limit: 1_000_000, ..TxEnv::default() };
        let output = reference.call(header, call).into_output().unwrap_or_default();
        let request = json!({"from": address(9), "to": counter, "gas": "0xf4240"});
        assert_eq!(client.get("eth_call", json!([request, at[0]])), json!(output), "at height {height}");
    }
    assert_eq!(seen, 18, "all transactions are in blocks");
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), (0..=4).collect::<Vec<_>>(), "every type");
    node.stop();
}

#[test]
fn small_answers_are_as_wallets_expect_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let counter = build(&client);
    let head = node.height();
    assert_eq!(client.get("eth_chainId", json!([])), json!(quantity(U256::from(CHAIN))));
    assert_eq!(client.get("net_version", json!([])), json!(CHAIN.to_string()));
    assert_eq!(client.get("net_listening", json!([])), json!(true));
    assert_eq!(client.get("eth_syncing", json!([])), json!(false));
    assert_eq!(client.get("eth_accounts", json!([])), json!([]));
    assert_eq!(client.get("eth_blockNumber", json!([])), json!(quantity(U256::from(head))));
    assert_eq!(client.get("web3_sha3", json!(["0x68656c6c6f"])), json!(keccak256("hello")));
    assert!(client.get("web3_clientVersion", json!([])).as_str().is_some_and(|name| name.starts_with("phalanx/v")));
    for nothing in [
        ("eth_getBlockByNumber", json!(["0xffffff", false])),
        ("eth_getBlockByHash", json!([B256::repeat_byte(9), false])),
        ("eth_getTransactionByHash", json!([B256::repeat_byte(9)])),
        ("eth_getTransactionReceipt", json!([B256::repeat_byte(9)])),
        ("eth_getTransactionByBlockNumberAndIndex", json!(["0x1", "0x7"])),
        ("eth_getBlockReceipts", json!(["0xffffff"])),
        ("eth_getUncleByBlockNumberAndIndex", json!(["0x1", "0x0"])),
    ] {
        assert_eq!(client.get(nothing.0, nothing.1), Value::Null, "{}", nothing.0);
    }
    for tag in ["latest", "safe", "finalized"] {
        assert_eq!(
            client.get("eth_getBlockByNumber", json!([tag, false]))["number"],
            json!(quantity(U256::from(head)))
        );
    }
    assert_eq!(client.get("eth_getBlockByNumber", json!(["earliest", false]))["number"], json!("0x0"));
    let pending = client.get("eth_getBlockByNumber", json!(["pending", false]));
    assert_eq!(pending["number"], json!(quantity(U256::from(head + 1))));
    assert!(pending["hash"].is_null() && pending["nonce"].is_null());
    // Prices follow EIP-1559 from the newest block on.
    let newest = answered(&client, head).header;
    let base = newest.next_block_base_fee(alloy_eips::eip1559::BaseFeeParams::ethereum()).expect("London");
    assert_eq!(pending["baseFeePerGas"], json!(quantity(U256::from(base))));
    let tip = client.quantity("eth_maxPriorityFeePerGas", json!([]));
    assert_eq!(client.quantity("eth_gasPrice", json!([])), tip + u128::from(base));
    assert_eq!(client.quantity("eth_blobBaseFee", json!([])), 1);
    // Estimates suffice, and exceed what is needed by little.
    let (pay, run) =
        (json!({"from": address(1), "to": address(9), "value": "0x1"}), json!({"from": address(1), "to": counter}));
    assert_eq!(client.get("eth_estimateGas", json!([pay])), json!("0x5208"));
    let gas = client.quantity("eth_estimateGas", json!([run]));
    let mut with = run.clone();
    with["gas"] = json!(quantity(U256::from(gas)));
    client.get("eth_call", json!([with]));
    with["gas"] = json!(quantity(U256::from(gas * 98 / 100)));
    assert!(client.ask("eth_call", json!([with])).get("error").is_some(), "a fiftieth less is too little");
    let listed = client.get("eth_createAccessList", json!([run]));
    assert_eq!(listed["accessList"], json!([{"address": counter, "storageKeys": [B256::ZERO]}]));
    node.stop();
}

#[test]
fn overrides_change_a_call_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let counter = build(&client);
    let call = json!({"from": address(1), "to": counter});
    let word = |number: u64| json!(B256::from(U256::from(number)));
    let zero = B256::ZERO.to_string();
    let plain = client.get("eth_call", json!([call, "latest"]));
    for over in [
        json!({ counter.to_string(): { "stateDiff": { zero.clone(): word(40) } } }),
        json!({ counter.to_string(): { "state": { zero: word(40) } } }),
    ] {
        assert_eq!(client.get("eth_call", json!([call, "latest", over])), word(41));
    }
    assert_eq!(client.get("eth_call", json!([call, "latest"])), plain, "nothing stays");
    // NUMBER PUSH0 MSTORE PUSH1 32 PUSH0 RETURN
    let code = json!({ "0x00000000000000000000000000000000000c0de1": { "code": "0x435f5260205ff3" } });
    let to = json!({"to": "0x00000000000000000000000000000000000c0de1"});
    assert_eq!(client.get("eth_call", json!([to, "latest", code])), word(node.height()));
    assert_eq!(client.get("eth_call", json!([to, "pending", code])), word(node.height() + 1));
    assert_eq!(client.get("eth_call", json!([to, "latest", code, {"number": "0x2a"}])), word(42));
    let rich = json!({"from": address(77), "to": address(9), "value": "0xde0b6b3a7640000"});
    let (number, text) = client.error("eth_call", json!([rich]));
    assert_eq!(number, -32000);
    assert!(text.starts_with("insufficient funds for gas * price + value"), "{text}");
    let funds = json!({ address(77).to_string(): { "balance": "0xde0b6b3a7640000" } });
    assert_eq!(client.get("eth_call", json!([rich, "latest", funds])), json!("0x"));
    node.stop();
}

#[test]
fn errors_have_the_codes_and_texts_that_libraries_match() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let counter = build(&client);
    // Error(string) of "no": selector, offset, length, text.
    let reason = format!("0x08c379a0{:064x}{:064x}6e6f{}", 32, 2, "0".repeat(60));
    let answer = client.ask("eth_call", json!([{"to": counter, "data": reason}]));
    assert_eq!(answer["error"], json!({"code": 3, "message": "execution reverted: no", "data": reason}));
    let answer = client.ask("eth_estimateGas", json!([{"to": counter, "data": "0x01"}]));
    assert_eq!(answer["error"], json!({"code": 3, "message": "execution reverted", "data": "0x01"}));
    let panics = format!("0x4e487b71{:064x}", 0x11);
    let (_, text) = client.error("eth_call", json!([{"to": counter, "data": panics}]));
    assert_eq!(text, "execution reverted: arithmetic underflow or overflow");
    let send = |tx: Bytes| client.error("eth_sendRawTransaction", json!([tx]));
    let begins = |tx: Bytes, start: &str| {
        let (code, text) = send(tx);
        assert_eq!(code, -32000, "{text}");
        assert!(text.starts_with(start), "{text:?} does not begin with {start:?}");
    };
    begins(signed(2, &Call::to(1, 0, counter, 0), vec![]), "nonce too low: next nonce 4, tx nonce 0");
    begins(signed(2, &Call::to(77, 0, counter, 0), vec![]), "insufficient funds for gas * price + value: balance 0");
    begins(signed(2, &Call::to(9, 5_000, counter, 0), vec![]), "nonce too high");
    begins(Bytes::new(), "typed transaction too short");
    begins(Bytes::from_static(&[0x7f, 1, 2]), "transaction type not supported");
    let future = Call::to(9, 3, counter, 0).with_tip(1_000);
    client.send(&signed(2, &future, vec![]));
    begins(signed(2, &future, vec![]), "already known");
    begins(signed(2, &future.with_tip(1_001), vec![]), "replacement transaction underpriced");
    let status = client.get("txpool_status", json!([]));
    assert_eq!(status, json!({"pending": "0x0", "queued": "0x1"}));
    let content = client.get("txpool_content", json!([]));
    assert_eq!(content["queued"][address(9).to_string()]["3"]["nonce"], json!("0x3"));
    assert_eq!(client.get("txpool_contentFrom", json!([address(9)]))["queued"]["3"]["from"], json!(address(9)));
    assert_eq!(client.get("eth_getTransactionCount", json!([address(9), "pending"])), json!("0x0"));
    for (method, params, code) in [
        ("eth_noSuchMethod", json!([]), -32601),
        ("eth_getBalance", json!([]), -32602),
        ("eth_getBalance", json!(["0x12"]), -32602),
        ("eth_getBalance", json!([address(1), "0x01"]), -32602),
        ("eth_getBalance", json!([address(1), "latest", 1]), -32602),
        ("eth_getBalance", json!([address(1), "0xffffff"]), -32000),
        ("eth_getBalance", json!([address(1), B256::repeat_byte(3)]), -32000),
        ("eth_call", json!([{"to": counter, "gasPrice": "0x1", "maxFeePerGas": "0x1"}]), -32602),
        ("eth_call", json!([{"to": counter, "data": "0x01", "input": "0x02"}]), -32602),
        ("eth_call", json!([{"to": counter, "chainId": "0x1"}]), -32602),
        ("eth_getFilterChanges", json!(["0x1"]), -32000),
        ("eth_feeHistory", json!(["0x1", "latest", [2, 1]]), -32000),
        ("eth_feeHistory", json!(["0x1", "0xfffff"]), -32000),
        ("debug_traceTransaction", json!([B256::ZERO]), -32000),
    ] {
        let (got, text) = client.error(method, params.clone());
        assert_eq!(got, code, "{method}{params}: {text}");
    }
    node.stop();
}

#[test]
fn fee_histories_follow_from_the_blocks() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    build(&client);
    let head = node.height();
    let history = client.get("eth_feeHistory", json!(["0x5", "latest", [0.0, 50.0, 100.0]]));
    assert_eq!(history["oldestBlock"], json!(quantity(U256::from(head - 4))));
    for (place, height) in (head - 4..=head).enumerate() {
        let block = answered(&client, height);
        let base = block.header.base_fee_per_gas.expect("London");
        assert_eq!(history["baseFeePerGas"][place], json!(quantity(U256::from(base))));
        let ratio = block.header.gas_used as f64 / block.header.gas_limit as f64;
        let told = history["gasUsedRatio"][place].as_f64().expect("a ratio");
        assert!((told - ratio).abs() < 1e-12, "at height {height}: {told} for {ratio}");
        let mut tips: Vec<u128> =
            block.txs.iter().map(|tx| tx.effective_gas_price(Some(base)) - u128::from(base)).collect();
        tips.sort_unstable();
        let (low, high) = (tips.first().copied().unwrap_or_default(), tips.last().copied().unwrap_or_default());
        assert_eq!(history["reward"][place][0], json!(quantity(U256::from(low))), "at height {height}");
        assert_eq!(history["reward"][place][2], json!(quantity(U256::from(high))), "at height {height}");
    }
    let next = answered(&client, head).header.next_block_base_fee(alloy_eips::eip1559::BaseFeeParams::ethereum());
    assert_eq!(history["baseFeePerGas"][5], json!(quantity(U256::from(next.expect("London")))));
    assert_eq!(client.get("eth_feeHistory", json!(["0xffff", "latest"]))["oldestBlock"], json!("0x0"));
    assert_eq!(
        client.get("eth_feeHistory", json!([3, "latest", []]))["gasUsedRatio"].as_array().map(Vec::len),
        Some(3)
    );
    node.stop();
}

#[test]
fn logs_are_found_by_contract_topic_and_range() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let counter = build(&client);
    let head = node.height();
    let mut all = Vec::new();
    for height in 0..=head {
        let receipts = client.get("eth_getBlockReceipts", json!([quantity(U256::from(height))]));
        all.extend(
            receipts
                .as_array()
                .expect("receipts")
                .iter()
                .flat_map(|receipt| receipt["logs"].as_array().expect("logs").clone()),
        );
    }
    assert_eq!(all.len(), 10, "one per successful run of the counter");
    let topic = |account: u64| B256::left_padding_from(address(account).as_slice());
    let keep = |wanted: &dyn Fn(&Value) -> bool| -> Value { all.iter().filter(|log| wanted(log)).cloned().collect() };
    let number = |log: &Value| {
        u64::from_str_radix(log["blockNumber"].as_str().expect("hex").trim_start_matches("0x"), 16).expect("a number")
    };
    for (filter, expected) in [
        (json!({"fromBlock": "earliest"}), keep(&|_| true)),
        (
            json!({"fromBlock": "0x0", "toBlock": "latest", "address": counter}),
            keep(&|log| log["address"] == json!(counter)),
        ),
        (json!({"fromBlock": "0x0", "address": [counter, address(6)]}), keep(&|_| true)),
        (json!({"fromBlock": "0x0", "address": address(6)}), keep(&|log| log["address"] == json!(address(6)))),
        (json!({"fromBlock": "0x0", "address": address(1)}), json!([])),
        (json!({"fromBlock": "0x0", "topics": [topic(7)]}), keep(&|log| log["topics"][0] == json!(topic(7)))),
        (
            json!({"fromBlock": "0x0", "topics": [[topic(1), topic(5)]]}),
            keep(&|log| log["topics"][0] != json!(topic(7))),
        ),
        (json!({"fromBlock": "0x0", "topics": [null]}), keep(&|_| true)),
        (json!({"fromBlock": "0x0", "topics": [topic(1), topic(1)]}), json!([])),
        (json!({"fromBlock": "0x3", "toBlock": "0x6"}), keep(&|log| (3..=6).contains(&number(log)))),
    ] {
        assert_eq!(client.get("eth_getLogs", json!([filter])), expected, "{filter}");
    }
    let block = answered(&client, 2);
    let of_block = client.get("eth_getLogs", json!([{"blockHash": block.hash}]));
    assert_eq!(of_block, keep(&|log| number(log) == 2));
    for wrong in [
        json!({"fromBlock": "0xffff"}),
        json!({"fromBlock": "0x5", "toBlock": "0x4"}),
        json!({"blockHash": block.hash, "fromBlock": "0x1"}),
        json!({"topics": [null, null, null, null, null]}),
        json!({"address": "0x12"}),
    ] {
        assert_eq!(client.error("eth_getLogs", json!([wrong])).0, -32602, "{wrong}");
    }
    node.stop();
}

#[test]
fn the_list_of_a_block_has_one_content_in_every_form() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let counter = build(&client);
    let (mut slots, height) = (0, node.height());
    for height in 1..=height {
        let (number, hash) = (format!("{height:#x}"), answered(&client, height).hash);
        let raw: Bytes =
            serde_json::from_value(client.get("debug_getRawBlockAccessList", json!([number]))).expect("bytes");
        let list = Vec::<AccountChanges>::decode(&mut &raw[..]).expect("a list");
        assert!(!list.is_empty());
        for (method, block) in [
            ("eth_getBlockAccessList", json!(number)),
            ("eth_getBlockAccessList", json!({ "blockHash": hash })),
            ("eth_getBlockAccessListByBlockNumber", json!(number)),
            ("eth_getBlockAccessListByBlockHash", json!(hash)),
        ] {
            let answer = client.get(method, json!([block]));
            let read: Vec<AccountChanges> = serde_json::from_value(answer.clone()).expect("alloy reads it");
            assert_eq!(read, list, "{method}");
            let of_counter =
                answer.as_array().expect("accounts").iter().find(|account| account["address"] == json!(counter));
            for slot in of_counter.iter().flat_map(|account| account["storageChanges"].as_array().expect("slots")) {
                // geth's client reads words of 32 bytes alone.
                assert_eq!(
                    [&slot["key"], &slot["changes"][0]["value"]].map(|word| word.as_str().map(str::len)),
                    [Some(66); 2]
                );
                slots += 1;
            }
        }
    }
    assert!(slots > 0, "the counter counts");
    let beyond = json!([format!("{:#x}", height + 1)]);
    for method in ["eth_getBlockAccessList", "eth_getBlockAccessListByBlockNumber", "debug_getRawBlockAccessList"] {
        assert_eq!(client.get(method, beyond.clone()), Value::Null, "{method}");
    }
    assert_eq!(client.get("eth_getBlockAccessListByBlockHash", json!([B256::ZERO])), Value::Null);
    node.stop();
}

#[test]
fn proofs_lead_to_the_state_root_of_the_block() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    let counter = build(&client);
    let head = answered(&client, node.height()).header;
    let proof = client.get("phalanx_getProof", json!([counter, ["0x0"], "latest"]));
    assert_eq!(proof["stateRoot"], json!(head.state_root));
    let bytes = |value: &Value| -> Bytes { serde_json::from_value(value.clone()).expect("bytes") };
    let params = phalanx::merkle::Params::default();
    let account = phalanx::verify_account(&params, head.state_root, counter, &bytes(&proof["accountProof"]));
    assert_eq!(account.expect("sound").expect("there").nonce, 1);
    let slot = bytes(&proof["storageProof"][0]["proof"]);
    let word = phalanx::verify_slot(&params, head.state_root, counter, B256::ZERO, &slot).expect("sound");
    assert_eq!(proof["storageProof"][0]["value"], json!(word));
    assert!(client.quantity("eth_blockNumber", json!([])) > 0);
    node.stop();
}
