//! A transaction in a pool: the recovered transaction with its rank, bid, cost and memory.

use super::{
    bid::{Bid, most_cost},
    queue::Load,
};
use crate::{model::Transaction, recovery::RecoveredTx};
use alloy_primitives::{Address, B256, Bytes, U256};
use revm::context::TxEnv;
use std::sync::Arc;

/// Overhead of a transaction in a pool, in bytes: its places in the indexes, and its sender's if it is the only one,
/// with the slack of grown tables.
const OVERHEAD: usize = 1280;

/// A transaction that a pool admitted.
#[derive(Clone, Debug)]
pub struct PooledTx {
    recovered: Arc<RecoveredTx>,
    rank: u64,
    born: u64,
    nonce: u64,
    pub(super) bid: Bid,
    pub(super) cost: U256,
    /// Memory of the transaction, in bytes, the pool's own included.
    bytes: usize,
}

impl PooledTx {
    /// Returns `None` if it could cost more than 2^256 wei. `extra` is the chain's own fee.
    pub(super) fn new(recovered: Arc<RecoveredTx>, extra: U256, rank: u64, born: u64) -> Option<Self> {
        let (bid, cost) = (Bid::of(recovered.tx()), most_cost(recovered.tx())?.checked_add(extra)?);
        let (nonce, bytes) = (recovered.tx().nonce, recovered.size() + OVERHEAD);
        Some(Self { recovered, rank, born, nonce, bid, cost, bytes })
    }

    /// Transaction as revm takes it.
    pub fn tx(&self) -> &TxEnv {
        self.recovered.tx()
    }

    /// Hash of the transaction.
    pub fn hash(&self) -> &B256 {
        self.recovered.hash()
    }

    /// Encoding as a block holds it.
    pub fn bytes(&self) -> &Bytes {
        self.recovered.bytes()
    }

    /// Transaction as it was recovered.
    pub const fn recovered(&self) -> &Arc<RecoveredTx> {
        &self.recovered
    }

    /// Number in the order of arrival, which names the transaction in its pool. A returned transaction keeps it.
    pub const fn rank(&self) -> u64 {
        self.rank
    }

    /// Tick of the arrival.
    pub const fn born(&self) -> u64 {
        self.born
    }

    /// Maximum cost to the sender, in wei: gas at the highest price, value, blobs, and the chain's extra fee.
    pub const fn most_cost(&self) -> &U256 {
        &self.cost
    }

    pub(super) const fn nonce(&self) -> u64 {
        self.nonce
    }

    pub(super) fn sender(&self) -> Address {
        self.tx().caller
    }

    pub(super) const fn load(&self) -> Load {
        Load { txs: 1, bytes: self.bytes }
    }
}

/// Implemented for a transaction as a block holds it.
impl Transaction for PooledTx {
    fn env(&self) -> &TxEnv {
        self.tx()
    }

    fn size(&self) -> u64 {
        self.bytes().len() as u64
    }

    fn bytes(&self) -> Option<&Bytes> {
        Transaction::bytes(&*self.recovered)
    }
}
