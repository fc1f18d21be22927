//! The block of a remote chain from which a chain for development goes on, and the genesis above it.

use super::{
    answers,
    cache::Cache,
    client::{Client, RemoteError},
    config::RemoteConfig,
};
use crate::error::NodeError;
use alloy_primitives::{Address, B256, Sealed};
use parking_lot::Mutex;
use phalanx::{
    RemoteState as _, RemoteValue,
    alloy::{consensus::Header, genesis::Genesis},
    paralyze::StateKey,
};
use serde_json::{Value, json, value::RawValue};
use std::sync::Arc;

/// A block of another node's chain, whose state is read when it is needed. Clones share everything.
#[derive(Clone, Debug)]
pub struct Remote {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) cache: Cache,
    chain_id: u64,
    pub(super) header: Sealed<Header>,
    /// The block as an argument of methods of the state.
    pub(super) at: Value,
    /// Number of failures, and the last one.
    pub(super) failed: Mutex<(u64, Option<String>)>,
}

impl Remote {
    /// Finds the block at the other node.
    ///
    /// # Errors
    /// [`NodeError::Remote`]: the other node does not answer, or has no such block.
    pub fn open(config: &RemoteConfig) -> Result<Self, NodeError> {
        let failed = |error: RemoteError| NodeError::Remote(error.to_string());
        let client = Client::new(config).map_err(NodeError::Setting)?;
        let chain_id = answers::chain_id(&client).map_err(failed)?;
        let wanted = config.block.map_or_else(|| json!("latest"), |height| json!(format!("{height:#x}")));
        let found = answers::header(&client, wanted).map_err(failed)?;
        let (header, hash) = found.ok_or_else(|| {
            let height = config.block.map_or_else(|| "the newest block".into(), |height| format!("block {height}"));
            NodeError::Remote(format!("the remote node {} has not got {height}", client.server()))
        })?;
        if config.block.is_some_and(|height| height != header.number) {
            let why = format!("the remote node {} answers with block {}", client.server(), header.number);
            return Err(NodeError::Remote(why));
        }
        if header.base_fee_per_gas.is_none() {
            let why = format!("block {} of the remote node is of before London, and has no base fee", header.number);
            return Err(NodeError::Remote(why));
        }
        let name = format!("{}-{hash}.redb", header.number);
        let path = config.cache.join(chain_id.to_string()).join(name);
        let cache = Cache::open(&path, config.spare.join("remote.redb")).map_err(NodeError::Setting)?;
        let at = name_of(&client, header.number, hash).map_err(failed)?;
        let header = Sealed::new_unchecked(header, hash);
        let shared = Shared { client, cache, chain_id, header, at, failed: Mutex::default() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Chain id of the other node.
    pub fn chain_id(&self) -> u64 {
        self.shared.chain_id
    }

    /// Header and hash of the block.
    pub fn block(&self) -> &Sealed<Header> {
        &self.shared.header
    }

    /// Scheme, host and port of the other node.
    pub fn server(&self) -> &str {
        self.shared.client.server()
    }

    /// Puts a genesis above the block: height, time, fees and limits are those of the block. Contracts that are there stay as they
    /// are, and accounts keep their nonces, but not their code: their keys sign here.
    ///
    /// # Errors
    /// [`NodeError::Remote`]: the accounts of the genesis cannot be read.
    pub fn put_above(&self, genesis: &mut Genesis) -> Result<(), NodeError> {
        let header = self.block();
        genesis.number = Some(header.number);
        // The chain's identity names the block that it goes on from.
        genesis.parent_hash = Some(header.hash());
        genesis.timestamp = header.timestamp;
        genesis.gas_limit = header.gas_limit;
        genesis.base_fee_per_gas = header.base_fee_per_gas.map(Into::into);
        genesis.excess_blob_gas = header.excess_blob_gas;
        genesis.blob_gas_used = header.blob_gas_used;
        let addresses: Vec<Address> = genesis.alloc.keys().copied().collect();
        let keys: Vec<StateKey> = addresses.iter().copied().map(StateKey::Basic).collect();
        let found = self.read(&keys).map_err(|error| NodeError::Remote(error.to_string()))?;
        for (address, found) in addresses.iter().zip(found) {
            let RemoteValue::Account(Some(found)) = found else { continue };
            let Some(own) = genesis.alloc.get_mut(address) else { continue };
            match own.code {
                Some(_) if found.code_hash.is_some() => _ = genesis.alloc.remove(address),
                // The contract is not there: its address may have been paid.
                Some(_) => own.balance = own.balance.max(found.balance),
                None => own.nonce = Some(found.nonce).filter(|nonce| *nonce > 0),
            }
        }
        Ok(())
    }

    /// Checks that a genesis, of an earlier start, was put above this block.
    ///
    /// # Errors
    /// [`NodeError::Setting`]: the other node's chain has another block there now.
    pub fn check(&self, genesis: &Genesis) -> Result<(), NodeError> {
        let (number, hash) = (self.block().number, self.block().hash());
        if (genesis.number, genesis.parent_hash) == (Some(number), Some(hash)) {
            return Ok(());
        }
        let held = genesis.parent_hash.unwrap_or_default();
        let why = format!(
            "the folder's chain goes on from a block {} with hash {held}, and the remote node's block {number} has hash {hash}: name \
             that block, or begin the chain in another folder",
            genesis.number.unwrap_or_default()
        );
        Err(NodeError::Setting(why))
    }

    /// Passes a request for what is below the chain on. The answer comes back as it is.
    pub(crate) fn pass(&self, method: &str, params: Value) -> Result<Box<RawValue>, RemoteError> {
        self.shared.client.ask(method, params)
    }

    /// The last reason for which the state was not read.
    pub(crate) fn last_failure(&self) -> Option<String> {
        self.shared.failed.lock().1.clone()
    }

    /// Number of times that the state was not read.
    pub(crate) fn failures(&self) -> u64 {
        self.shared.failed.lock().0
    }
}

/// A block as an argument of methods of the state: by its hash, so that no other chain's state is read if the other node changes its
/// mind; by its height at nodes that know no hashes there (EIP-1898).
fn name_of(client: &Client, number: u64, hash: B256) -> Result<Value, RemoteError> {
    let by_hash = json!({ "blockHash": hash });
    match client.ask("eth_getBalance", json!([Address::ZERO, by_hash])) {
        Ok(_) => Ok(by_hash),
        Err(RemoteError::Refused { code: -32602 | -32600, .. }) => Ok(json!(format!("{number:#x}"))),
        Err(error) => Err(error),
    }
}
