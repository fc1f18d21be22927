//! An executed block as the books keep it: its state, its result, and the facts that pool and proofs need.

use crate::{recovery::RecoveredTx, seal::BlockInfo, state::Ancestors};
use alloy_primitives::{Address, B256};
use phalanx_engine_api as api;
use phalanx_merkle::Snapshot;
use phalanx_paralyze::authorities;
use std::sync::Arc;

/// State and proofs of an executed block.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// State after the block.
    pub(super) view: Snapshot,
    /// Ancestors that BLOCKHASH sees in its children.
    pub(super) ancestors: Arc<Ancestors>,
    pub(super) outcome: Option<api::Outcome>,
    /// Data for proofs of its transactions; `None` after a restart.
    pub(super) info: Option<Arc<BlockInfo>>,
    pub(super) facts: Arc<Facts>,
    /// Approximate size of the block's log record, in bytes.
    pub(super) log_bytes: u64,
    /// Memory of the fork, in bytes.
    pub(super) memory: u64,
}

/// Transactions and accounts of a block, for the pool; empty after a restart.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Hashes of the block's transactions.
    pub(super) hashes: Vec<B256>,
    /// Accounts whose nonces the block may have changed.
    pub(super) accounts: Vec<Address>,
}

impl Facts {
    pub(super) fn of(txs: &[Arc<RecoveredTx>]) -> Self {
        let hashes = txs.iter().map(|tx| *tx.hash()).collect();
        let mut accounts: Vec<_> = txs.iter().map(|tx| tx.tx().caller).collect();
        accounts.extend(txs.iter().flat_map(|tx| authorities(tx.tx())));
        accounts.sort_unstable();
        accounts.dedup();
        Self { hashes, accounts }
    }
}
