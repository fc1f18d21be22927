//! An executed block as the books keep it: its state, its result, and the facts that pool and proofs need.

use super::codec::{Fees, Tag};
use crate::{model::BlockAccessList, recovery::RecoveredTx, seal::BlockInfo, state::Ancestors};
use alloy_consensus::Header;
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::{Address, B256, TxKind};
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
    /// Hash of the block: of its header, if the chain's blocks are executed as a whole; else the name of its execution.
    pub(super) hash: B256,
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
    /// Maximum number of the newest blocks that are kept whole. Of older ones only the state is read.
    pub(super) const WHOLE: u64 = 256;

    /// Number of transactions of the newest blocks behind which no further block is kept whole: results and access list of a
    /// transaction take some kilobytes.
    pub(super) const WHOLE_TXS: usize = 1 << 15;

    /// Heights of the blocks that are whole, and have enough transactions above them. Given are all blocks, newest first, with their
    /// numbers of transactions while they are whole. The newest stays in any case.
    pub(super) fn beyond(blocks: impl Iterator<Item = (u64, Option<usize>)>) -> Vec<u64> {
        let mut above = 0;
        let mut has_room = |count: usize| {
            let has_room = above < Self::WHOLE_TXS;
            above += count;
            has_room
        };
        let whole = blocks.map_while(|(height, count)| Some((height, count?)));
        whole.filter(|(_, count)| !has_room(*count)).map(|(height, _)| height).collect()
    }

    /// Number of transactions, skipped ones included, while the block is whole.
    pub(super) fn txs(&self) -> Option<usize> {
        self.payload.as_ref().map(|payload| payload.txs().len())
    }

    /// Drops transactions and results.
    pub(super) fn drop_parts(&mut self) {
        (self.info, self.facts, self.header, self.payload) = (None, None, None, None);
    }

    /// Drops what is read of new blocks alone: a long history costs little per block.
    pub(super) fn thin(&mut self) {
        self.drop_parts();
        // Without an outcome nothing else has the block's name.
        if self.outcome.is_some() {
            self.ancestors = Arc::default();
        }
    }

    /// A block that was executed before a restart, by its tag.
    pub(super) fn restored(view: Snapshot, ancestors: Arc<Ancestors>, hash: B256, tag: Option<Tag>) -> Self {
        let (fees, covered) = tag.as_ref().map_or_else(Default::default, |tag| (tag.fees, tag.covered));
        let hashes = tag.as_ref().map_or_else(Arc::default, |tag| Arc::clone(&tag.hashes));
        let outcome = tag.map(|tag| tag.outcome);
        Self {
            view,
            ancestors,
            hash,
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
    /// Accounts whose nonce, balance or code the block may have changed.
    pub(super) accounts: Vec<Address>,
    /// True if these are all such accounts: the block's access list names them. Otherwise they are those that transactions name.
    pub(super) are_all: bool,
}

impl Facts {
    pub(super) fn of(txs: &[Arc<RecoveredTx>], list: Option<&BlockAccessList>) -> Self {
        let hashes = txs.iter().map(|tx| *tx.hash()).collect();
        let senders: Vec<_> = txs.iter().map(|tx| tx.tx().caller).collect();
        let mut accounts: Vec<Address> = match list {
            Some(list) => list.accounts().iter().filter(|account| is_changed(account)).map(|a| a.address).collect(),
            None => {
                let of = |tx: &Arc<RecoveredTx>| match tx.tx().kind {
                    TxKind::Call(to) => Some(to),
                    TxKind::Create => None,
                };
                let authorities = txs.iter().flat_map(|tx| authorities(tx.tx()));
                senders.iter().copied().chain(txs.iter().filter_map(of)).chain(authorities).collect()
            }
        };
        accounts.sort_unstable();
        accounts.dedup();
        Self { hashes, senders, accounts, are_all: list.is_some() }
    }
}

/// True if an account has another nonce, balance or code after a block than before.
const fn is_changed(account: &AccountChanges) -> bool {
    !account.balance_changes.is_empty() || !account.nonce_changes.is_empty() || !account.code_changes.is_empty()
}

/// Accounts that a pool must read anew.
#[derive(Debug)]
pub(super) enum Changed {
    /// These, if the pool knows them.
    All(Vec<Address>),
    /// Accounts that transactions name, and accounts whose code may have moved nonce or balance without a transaction of their own.
    Named(Vec<Address>),
    /// Any account: the blocks between were executed before a restart, or rewound.
    Unknown,
}

impl Default for Changed {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

impl Changed {
    /// Accounts that the blocks may have changed.
    pub(super) fn of<'k>(blocks: impl Iterator<Item = &'k Kept>) -> Self {
        let facts: Option<Vec<_>> = blocks.map(|kept| kept.facts.as_deref()).collect();
        let Some(facts) = facts else { return Self::Unknown };
        let accounts = facts.iter().flat_map(|facts| facts.accounts.iter().copied()).collect();
        if facts.iter().all(|facts| facts.are_all) { Self::All(accounts) } else { Self::Named(accounts) }
    }
}

/// A block of a commit, for the sink.
pub(super) struct Handed {
    pub(super) committed: CommittedTip,
    pub(super) candidate: Candidate,
    pub(super) kept: Kept,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_blocks_are_kept_whole_as_far_as_their_transactions_go() {
        let beyond = |counts: &[usize]| {
            let newest_first = (0..counts.len() as u64).rev().zip(counts.iter().map(|count| Some(*count)));
            // What is below is not whole any more.
            Kept::beyond(newest_first.chain([(7, None), (8, Some(1))]))
        };
        let most = Kept::WHOLE_TXS;
        assert!(beyond(&[]).is_empty() && beyond(&[0; 300]).is_empty() && beyond(&[2 * most]).is_empty());
        assert_eq!(beyond(&[most - 1, 5, 0, 3]), [1, 0], "the second one begins with room");
        assert_eq!(beyond(&[most, 0]), [0]);
    }
}
