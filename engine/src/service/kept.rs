//! An executed block as the books keep it: its state, its result, and the facts that pool and proofs need.

use super::codec::{Fees, Tag};
use crate::{recovery::RecoveredTx, seal::BlockInfo, state::Ancestors};
use alloy_consensus::Header;
use alloy_primitives::{Address, B256};
use phalanx_engine_api::{self as api, Candidate, CommittedTip};
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
    pub(super) outcome: Option<api::ExecOutcome>,
    /// Data for proofs of its transactions; `None` after a restart.
    pub(super) info: Option<Arc<BlockInfo>>,
    /// `None` after a restart.
    pub(super) facts: Option<Arc<Facts>>,
    /// Header that the block was executed with, if the chain's blocks are executed as a whole; `None` after a restart.
    pub(super) header: Option<Arc<Header>>,
    /// Transactions of the block, skipped ones included; `None` after a restart.
    pub(super) payload: Option<Arc<api::Payload>>,
    /// Hashes of the block's transactions, skipped ones included.
    pub(super) hashes: Arc<[B256]>,
    pub(super) fees: Fees,
    /// Highest ancestor whose row is in the tag of this block or of an ancestor.
    pub(super) covered: u64,
    /// Approximate size of the block's log record, in bytes.
    pub(super) log_bytes: u64,
    /// Memory of the fork, in bytes.
    pub(super) memory: u64,
}

impl Kept {
    /// A block that was executed before a restart, by its tag.
    pub(super) fn restored(view: Snapshot, ancestors: Arc<Ancestors>, tag: Option<Tag>) -> Self {
        let (fees, covered) = tag.as_ref().map_or_else(Default::default, |tag| (tag.fees, tag.covered));
        let hashes = tag.as_ref().map_or_else(Arc::default, |tag| Arc::clone(&tag.hashes));
        let outcome = tag.map(|tag| tag.outcome);
        Self {
            view,
            ancestors,
            outcome,
            info: None,
            facts: None,
            header: None,
            payload: None,
            hashes,
            fees,
            covered,
            log_bytes: 0,
            memory: 0,
        }
    }
}

/// Transactions and accounts of a block, for the sink and the pool.
#[derive(Debug)]
pub(super) struct Facts {
    /// Hashes of the block's transactions.
    pub(super) hashes: Vec<B256>,
    /// Senders of the block's transactions.
    pub(super) senders: Vec<Address>,
    /// Accounts whose nonces the block may have changed.
    pub(super) accounts: Vec<Address>,
}

impl Facts {
    pub(super) fn of(txs: &[Arc<RecoveredTx>]) -> Self {
        let hashes = txs.iter().map(|tx| *tx.hash()).collect();
        let senders: Vec<_> = txs.iter().map(|tx| tx.tx().caller).collect();
        let mut accounts = senders.clone();
        accounts.extend(txs.iter().flat_map(|tx| authorities(tx.tx())));
        accounts.sort_unstable();
        accounts.dedup();
        Self { hashes, senders, accounts }
    }
}

/// Accounts that a pool must read anew.
#[derive(Debug)]
pub(super) enum Changed {
    /// These, if the pool knows them.
    Named(Vec<Address>),
    /// Any account: the blocks between were executed before a restart, or rewound.
    Unknown,
}

impl Default for Changed {
    fn default() -> Self {
        Self::Named(Vec::new())
    }
}

impl Changed {
    /// Accounts whose nonces the blocks may have changed.
    pub(super) fn of<'k>(blocks: impl Iterator<Item = &'k Kept>) -> Self {
        let accounts: Option<Vec<_>> = blocks.map(|kept| Some(&kept.facts.as_ref()?.accounts)).collect();
        accounts.map_or(Self::Unknown, |accounts| Self::Named(accounts.into_iter().flatten().copied().collect()))
    }
}

/// A block of a commit, for the sink.
pub(super) struct Handed {
    pub(super) committed: CommittedTip,
    pub(super) candidate: Candidate,
    pub(super) kept: Kept,
}
