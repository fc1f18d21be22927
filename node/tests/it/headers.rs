//! The hash of a block is that of its header, on every fork, wherever a client or a contract sees it.

use crate::kit::{Call, Client, address, authorize, config, genesis, signed};
use alloy_consensus::{
    Header, TxEnvelope,
    proofs::{calculate_receipt_root, calculate_transaction_root, calculate_withdrawals_root},
};
use alloy_eips::{Decodable2718 as _, eip2935::HISTORY_STORAGE_ADDRESS};
use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256, logs_bloom};
use alloy_rpc_types_eth::{Block, TransactionReceipt};
use phalanx::alloy::genesis::{Genesis, GenesisAccount};
use phalanx_abci::conformance::{Comet, Proposal, TcpLink};
use phalanx_node::{BlockSource, CometConfig, Node, NodeConfig, Production};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

/// Milliseconds at which the chain begins; its blocks are 400 milliseconds apart.
const START_MS: u64 = 1_790_000_000_250;

/// Number of blocks: five or more on each fork.
const BLOCKS: u64 = 26;

const PATIENCE: Duration = Duration::from_secs(600);

/// Stores the hash of the parent under the number of the block, logs it, and returns it.
const ASKS: [u8; 21] = hex!("6001430340804355" "600052" "60206000a0" "60206000f3");

/// A chain that begins on Paris, and is on the next fork every two seconds.
fn forks() -> Genesis {
    let mut genesis = genesis();
    let at = |seconds: u64| Some(START_MS / 1000 + seconds);
    let config = &mut genesis.config;
    (config.shanghai_time, config.cancun_time) = (at(2), at(4));
    (config.prague_time, config.osaka_time) = (at(6), at(8));
    let account = GenesisAccount::default().with_nonce(Some(1)).with_code(Some(ASKS.into()));
    genesis.alloc.insert(asks(), account);
    genesis
}

const fn asks() -> Address {
    Address::repeat_byte(0xab)
}

fn settings(folder: &Path) -> NodeConfig {
    let mut settings = config(folder, Production::Off);
    (settings.genesis, settings.beneficiary) = (forks(), Address::ZERO);
    settings
}

fn validator(folder: &Path) -> NodeConfig {
    let (abci, rpc) = (SocketAddr::from(([127, 0, 0, 1], 0)), SocketAddr::from(([127, 0, 0, 1], 1)));
    NodeConfig { source: BlockSource::Comet(CometConfig { abci, rpc, ..CometConfig::default() }), ..settings(folder) }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("alloy reads it")
}

/// Checks every block of a node, and returns their hashes.
fn check(client: &Client) -> Vec<B256> {
    let mut hashes: Vec<B256> = Vec::new();
    let mut forks = [0; 5];
    for height in 0..=BLOCKS {
        let at = json!([format!("{height:#x}"), true]);
        let block: Block = read(client.get("eth_getBlockByNumber", at.clone()));
        let (hash, header): (B256, Header) = (block.header.hash, block.header.inner.clone());
        assert_eq!(hash, header.hash_slow(), "block {height}");
        let raw: Bytes = read(client.get("debug_getRawHeader", json!([at[0]])));
        assert_eq!(keccak256(&raw), hash, "block {height}");
        let parent = hashes.last().copied().unwrap_or_default();
        assert_eq!((header.number, header.parent_hash), (height, parent));
        // Every field of the header, by the fork.
        let seconds = header.timestamp.saturating_sub(START_MS / 1000);
        let fork = if height == 0 { 0 } else { (seconds / 2).min(4) as usize };
        forks[fork] += 1;
        let fields = [
            header.withdrawals_root.is_some(),
            header.excess_blob_gas.is_some() && header.blob_gas_used.is_some(),
            header.parent_beacon_block_root.is_some(),
            header.requests_hash.is_some(),
        ];
        assert_eq!(fields, [fork >= 1, fork >= 2, fork >= 2, fork >= 3], "block {height}");
        // Roots, by alloy.
        let txs: Vec<TxEnvelope> = block
            .transactions
            .hashes()
            .map(|hash| {
                let raw: Bytes = read(client.get("eth_getRawTransactionByHash", json!([hash])));
                TxEnvelope::decode_2718_exact(&raw).expect("a transaction")
            })
            .collect();
        assert_eq!(header.transactions_root, calculate_transaction_root(&txs), "block {height}");
        let receipts: Vec<TransactionReceipt> = read(client.get("eth_getBlockReceipts", json!([at[0]])));
        assert!(receipts.iter().all(|receipt| receipt.block_hash == Some(hash)), "block {height}");
        let logs = receipts.iter().flat_map(|receipt| receipt.logs().iter().map(|log| &log.inner));
        assert_eq!(header.logs_bloom, logs_bloom(logs), "block {height}");
        let receipts: Vec<_> = receipts.into_iter().map(|one| one.inner.into_primitives_receipt()).collect();
        assert_eq!(header.receipts_root, calculate_receipt_root(&receipts), "block {height}");
        let withdrawn = block.withdrawals.as_ref().map(|list| calculate_withdrawals_root(list));
        assert_eq!(header.withdrawals_root, withdrawn, "block {height}");
        // A block is found by its hash, and by no other name.
        assert_eq!(client.get("eth_getBlockByHash", json!([hash, true])), client.get("eth_getBlockByNumber", at));
        let logs = client.get("eth_getLogs", json!([{ "blockHash": hash, "address": asks() }]));
        assert_eq!(logs.as_array().expect("logs").len(), usize::from(height > 0), "block {height}");
        // The contract has seen the same hash.
        if height > 0 {
            assert_eq!(logs[0]["data"], json!(parent), "block {height}");
            let seen = client.get("eth_getStorageAt", json!([asks(), format!("{height:#x}"), "latest"]));
            assert_eq!(seen, json!(parent), "block {height}");
        }
        if fork >= 3 {
            let slot = format!("{:#x}", height - 1);
            let history = client.get("eth_getStorageAt", json!([HISTORY_STORAGE_ADDRESS, slot, "latest"]));
            assert_eq!(history, json!(parent), "block {height}");
        }
        hashes.push(hash);
    }
    assert!(forks.iter().all(|blocks| *blocks >= 5), "{forks:?}");
    assert_eq!(client.get("eth_getBlockByHash", json!([B256::ZERO, false])), Value::Null);
    // Calls see them as well: in the newest block, and in the one behind it.
    let newest = BLOCKS as usize;
    for (at, parent) in [("latest", newest - 1), ("pending", newest)] {
        let seen = client.get("eth_call", json!([{ "to": asks() }, at]));
        assert_eq!(seen, json!(hashes[parent]), "{at}");
    }
    hashes
}

#[test]
fn every_client_and_contract_sees_the_hash_of_the_header() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let node = Node::start(&validator(folder.path())).expect("a node");
    let mut link = TcpLink::connect(node.abci_address().expect("ABCI")).expect("a connection");
    let mut comet = Comet::new("phalanx-4242", START_MS);
    comet.handshake(&mut link).expect("sound");
    for height in 1..=BLOCKS {
        let nonce = height - 1;
        let mut txs = vec![signed(0, &Call::to(1, nonce, asks(), 0), vec![]), Bytes::from_static(b"\x02junk")];
        txs.push(signed(2, &Call::to(2, nonce, address(3), 1), vec![]));
        if height > BLOCKS - 5 {
            let allowed = vec![authorize(4, height + 4 - BLOCKS, asks())];
            txs.push(signed(4, &Call::to(5, height + 4 - BLOCKS, address(6), 0), allowed));
        }
        comet.height(&mut link, &[Proposal::Unseen(txs)]).expect("sound");
    }
    let hashes = check(&Client::new(node.address()));
    // A follower finds the same hashes by itself, and both keep them.
    let mut following = settings(other.path());
    following.source = BlockSource::Followed(format!("http://{}", node.address()));
    let follower = Node::start(&following).expect("a node");
    let begun = Instant::now();
    while follower.height() < BLOCKS {
        assert!(begun.elapsed() < PATIENCE, "block {} after {} s", follower.height(), PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(check(&Client::new(follower.address())), hashes);
    follower.stop();
    node.stop();
    let node = Node::start(&validator(folder.path())).expect("a node");
    following.source = BlockSource::Followed(format!("http://{}", node.address()));
    let follower = Node::start(&following).expect("a node");
    for client in [&node, &follower].map(|node| Client::new(node.address())) {
        assert_eq!(check(&client), hashes);
    }
    // The next block goes on from them.
    let mut link = TcpLink::connect(node.abci_address().expect("ABCI")).expect("a connection");
    comet.handshake(&mut link).expect("sound");
    comet.height(&mut link, &[Proposal::Own]).expect("sound");
    let next: Block = read(Client::new(node.address()).get("eth_getBlockByNumber", json!(["latest", false])));
    assert_eq!(
        (next.header.parent_hash, U256::from(next.header.number)),
        (hashes[BLOCKS as usize], U256::from(BLOCKS + 1))
    );
    follower.stop();
    node.stop();
}
