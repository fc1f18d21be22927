//! A chunk of a batch that one thread predicts, and the rule found for each of its transactions.

use super::brief::Brief;
use crate::{
    batch::Batch,
    erc20,
    key::StateKey,
    template::{Function, Predicted},
};
use alloy_primitives::{Address, B256};
use core::ops::Range;
use phalanx_access::Access;

/// Number of transactions per chunk, which one thread predicts into one [`Batch`]. Large enough to hide the cost of a fork,
/// small enough to balance.
pub const BATCH_LEN: usize = 512;

/// A parallel chunk of a batch.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) batch: Batch,
    /// Short forms of the chunk's transactions.
    pub(super) briefs: Vec<Brief>,
    /// Transactions that no rule predicts, by index in the chunk; `batch` holds a placeholder for each.
    pub(crate) pending: Vec<(usize, Pending)>,
    /// True for pending transactions that do not run dry; empty where none was pending at first.
    pub(crate) doubtful: Vec<bool>,
    pub(super) rules: Vec<Rule>,
    pub(super) slots: erc20::Slots,
    pub(super) predicted: Predicted,
}

impl Chunk {
    /// True if a pending transaction does not run dry.
    pub(crate) fn is_doubtful(&self, index: usize) -> bool {
        self.doubtful.get(index).is_some_and(|doubtful| *doubtful)
    }
}

/// Reason why a transaction has no prediction yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// The token layout of this code is unknown.
    Layout(B256),
    /// The function has no template, or none for this path.
    Template(Function),
    /// Only simulation predicts it.
    Simulation,
}

/// Layer that predicts a transaction.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    Native(Address),
    /// The token, and the indices of its slots.
    Erc20(Address, Range<usize>),
    /// The index of the request, and the called function.
    Template(usize, Function),
    Declared(Address),
    /// A precompile of the chain, and the accesses that it predicts.
    Precompile(Address, Vec<(StateKey, Access)>),
    /// No prediction yet.
    Pending(Pending),
}

/// Treatment of a transaction that no rule predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    SetAside,
    Simulate,
}
