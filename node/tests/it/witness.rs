//! `debug_executionWitness`: every block runs again by stock revm on its witness alone, and leads to the root of its header.

use crate::{
    answers::build,
    kit::{Client, Reference, config, instant},
};
use alloy_consensus::{Block, Header, TxEnvelope};
use alloy_eips::Encodable2718 as _;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rlp::Decodable as _;
use parking_lot::Mutex;
use phalanx::{
    RootKind,
    revm::{
        DatabaseRef,
        database::{AccountState, CacheDB},
        state::{AccountInfo, Bytecode},
    },
    state_trie::{Account, Changes, Fate, Partial, PartialError, Wipe},
};
use phalanx_node::{Node, Production, set_root};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;

#[derive(Clone, Debug, Deserialize)]
struct Witness {
    state: Vec<Bytes>,
    codes: Vec<Bytes>,
    keys: Vec<Bytes>,
    headers: Vec<Bytes>,
}

/// A state of which only a witness is known.
struct Stateless {
    partial: Mutex<Partial>,
    codes: HashMap<B256, Bytes>,
}

#[derive(Debug, thiserror::Error)]
enum Lack {
    #[error(transparent)]
    Node(#[from] PartialError),
    #[error("the witness lacks code {0}")]
    Code(B256),
    #[error("the witness lacks header {0}")]
    Header(u64),
}

impl phalanx::revm::database_interface::DBErrorMarker for Lack {}

impl DatabaseRef for Stateless {
    type Error = Lack;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, Lack> {
        let found = self.partial.lock().account(&address)?;
        let info = |(account, _): (Account, B256)| {
            let Account { nonce, balance, code_hash } = account;
            AccountInfo { nonce, balance, code_hash, code: None, ..AccountInfo::default() }
        };
        Ok(found.map(info))
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, Lack> {
        self.codes.get(&hash).map(|code| Bytecode::new_raw(code.clone())).ok_or(Lack::Code(hash))
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, Lack> {
        Ok(self.partial.lock().slot(&address, &slot.into())?)
    }

    fn block_hash_ref(&self, height: u64) -> Result<B256, Lack> {
        Err(Lack::Header(height))
    }
}

/// Runs a block on its witness; returns the root after it.
fn root_after(config: &phalanx_node::NodeConfig, block: &Block<TxEnvelope>, witness: &Witness) -> B256 {
    let headers = witness.headers.iter().map(|rlp| Header::decode(&mut &rlp[..]).expect("a header"));
    let headers: Vec<Header> = headers.collect();
    let parent = headers.last().expect("the parent");
    assert_eq!(parent.hash_slow(), block.header.parent_hash);
    assert!(headers.array_windows().all(|[above, below]| above.hash_slow() == below.parent_hash));
    let partial = Mutex::new(Partial::of_witness(&parent.state_root, witness.state.clone()));
    let codes = witness.codes.iter().map(|code| (keccak256(code), code.clone())).collect();
    let mut reference = Reference::on(&config.genesis, CacheDB::new(Stateless { partial, codes }));
    for header in &headers {
        reference.state.cache.block_hashes.insert(U256::from(header.number), header.hash_slow());
    }
    let txs: Vec<Bytes> = block.body.transactions.iter().map(|tx| tx.encoded_2718().into()).collect();
    reference.block(&block.header, block.header.hash_slow(), &txs);
    let mut changes = Changes::new();
    for (address, account) in &reference.state.cache.accounts {
        let is_gone = account.account_state == AccountState::NotExisting || account.info.is_empty();
        let AccountInfo { nonce, balance, code_hash, .. } = account.info;
        let fate = if is_gone { Fate::Removed } else { Fate::Set(Account { nonce, balance, code_hash }) };
        let is_wiped = account.account_state == AccountState::StorageCleared;
        let wipe = if is_wiped { Wipe::Storage } else { Wipe::Nothing };
        changes.account(keccak256(address), *address, fate, wipe);
        for (slot, value) in &account.storage {
            let slot = B256::from(*slot);
            changes.slot(keccak256(slot), slot, *value);
        }
    }
    reference.state.db.partial.lock().update(&changes).expect("the witness is whole")
}

fn witness(client: &Client, block: impl Into<Value>) -> Witness {
    serde_json::from_value(client.get("debug_executionWitness", json!([block.into()]))).expect("a witness")
}

#[test]
fn every_block_runs_again_from_its_witness_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config(folder.path(), Production::Instant);
    set_root(&mut config.genesis, RootKind::Ethereum);
    let node = Node::start(&config).expect("a node");
    let client = Client::new(node.address());
    build(&client);
    let height = node.height();
    assert!(height > 3, "{height} blocks");
    for height in 1..=height {
        let name = json!(format!("{height:#x}"));
        let raw: Bytes = serde_json::from_value(client.get("debug_getRawBlock", json!([name]))).expect("bytes");
        let block = Block::<TxEnvelope>::decode(&mut &raw[..]).expect("a block");
        let shown = witness(&client, name);
        assert_eq!(root_after(&config, &block, &shown), block.header.state_root, "block {height}");
        // The same under the block's hash, and the names of all that the list names.
        let by_hash = client.get("debug_executionWitnessByBlockHash", json!([block.header.hash_slow()]));
        assert_eq!(serde_json::from_value::<Witness>(by_hash).expect("a witness").state, shown.state);
        assert!(shown.keys.iter().any(|key| key.len() == 20) && shown.keys.iter().any(|key| key.len() == 32));
        assert_eq!(shown.headers.len() as u64, height);
    }
    assert!(client.error("debug_executionWitness", json!(["0x0"])).1.contains("genesis"));
    assert!(client.error("debug_executionWitness", json!(["0xffff"])).1.contains("not found"));
    node.stop();
}

#[test]
fn a_chain_of_twigs_has_no_witness_of_ethereum() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, client) = instant(folder.path());
    build(&client);
    let (_, words) = client.error("debug_executionWitness", json!(["latest"]));
    assert!(words.contains("twigs"), "{words}");
    node.stop();
}
