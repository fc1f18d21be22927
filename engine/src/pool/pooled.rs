use super::{
    bid::{Bid, most_cost},
    queue::Load,
};
use crate::RecoveredTx;
use alloy_primitives::{Address, B256, Bytes, U256};
use revm::context::TxEnv;
use std::sync::Arc;

/// What a transaction takes in a pool beside itself: its places in the indexes, and all of its sender's if it is the only
/// one, with the slack of tables that have grown.
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
    /// Of memory, the pool's own included.
    bytes: usize,
}

impl PooledTx {
    /// `None` if it could cost more than 2^256 wei.
    pub(super) fn new(recovered: Arc<RecoveredTx>, rank: u64, born: u64) -> Option<Self> {
        let (bid, cost) = (Bid::of(recovered.tx()), most_cost(recovered.tx())?);
        let (nonce, bytes) = (recovered.tx().nonce, recovered.size() + OVERHEAD);
        Some(Self { recovered, rank, born, nonce, bid, cost, bytes })
    }

    /// The transaction as revm takes it.
    pub fn tx(&self) -> &TxEnv {
        self.recovered.tx()
    }

    /// Its hash.
    pub fn hash(&self) -> &B256 {
        self.recovered.hash()
    }

    /// Its encoding as a block holds it.
    pub fn bytes(&self) -> &Bytes {
        self.recovered.bytes()
    }

    /// As it was recovered.
    pub const fn recovered(&self) -> &Arc<RecoveredTx> {
        &self.recovered
    }

    /// Its number in order of arrival, which names it in its pool. It keeps it when it comes back.
    pub const fn rank(&self) -> u64 {
        self.rank
    }

    /// The tick of its arrival.
    pub const fn born(&self) -> u64 {
        self.born
    }

    /// Most that it can cost its sender, wei: gas at the highest price, value and blobs.
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
