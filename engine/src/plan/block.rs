//! A planned block: its order, its predictions, and their sources.

use super::graph::Ahead;
use crate::model::Order;
use phalanx_access::{AccessSets, KeyId};
use phalanx_memory::Pooled;
use phalanx_paralyze::{Preimages, Source, StateKey};

/// A block to execute: transactions in final order, with their predicted accesses.
#[derive(Clone, Debug)]
pub struct Block {
    /// Transactions by index in the planner's input, in final order.
    pub(crate) order: Vec<u32>,
    /// Predicted sets of all but the last `serial_tail`, in final order.
    pub(crate) sets: Pooled<AccessSets<KeyId>>,
    pub(crate) keys: Pooled<Vec<StateKey>>,
    /// Preimages of slots among the keys, by transaction.
    pub(crate) preimages: Pooled<Preimages<KeyId>>,
    /// Graph of all but the last `serial_tail`, if it was built ahead.
    pub(crate) graph: Option<Ahead>,
    /// Number of last transactions that run serially, without a prediction.
    pub(crate) serial_tail: usize,
    pub(crate) ordering: Order,
    /// Number of frames with a member in the block.
    pub(crate) frames: usize,
    pub(crate) sources: SourceCounts,
}

/// Number of transactions that each layer of ParaLyze predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceCounts {
    /// L0, native rule.
    pub native: usize,
    /// L1, EIP-2930 list.
    pub declared: usize,
    /// L2, ERC20 rule.
    pub erc20: usize,
    /// L3, learned templates.
    pub template: usize,
    /// L4, simulation.
    pub simulated: usize,
    /// Without a prediction.
    pub unknown: usize,
}

impl SourceCounts {
    pub(crate) const fn count(&mut self, source: Source) {
        match source {
            Source::Native => self.native += 1,
            Source::Declared => self.declared += 1,
            Source::Erc20 => self.erc20 += 1,
            Source::Template => self.template += 1,
            Source::Simulated => self.simulated += 1,
            Source::Unknown => self.unknown += 1,
        }
    }

    pub(crate) const fn add(&mut self, other: &Self) {
        let Self { native, declared, erc20, template, simulated, unknown } = *other;
        self.native += native;
        self.declared += declared;
        self.erc20 += erc20;
        self.template += template;
        self.simulated += simulated;
        self.unknown += unknown;
    }
}

impl Block {
    /// Creates a block in the given order without predictions, for the sequential executor.
    pub fn unpredicted(order: Vec<u32>) -> Self {
        Self {
            serial_tail: order.len(),
            order,
            sets: Pooled::default(),
            keys: Pooled::default(),
            preimages: Pooled::default(),
            graph: None,
            ordering: Order::Given,
            frames: 0,
            sources: SourceCounts::default(),
        }
    }

    /// Transactions in final order, by their index in the planner's input.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Predicted sets, in final order, over the dense ids of [`Self::keys`].
    pub fn sets(&self) -> &AccessSets<KeyId> {
        &self.sets
    }

    /// Keys of the block, by id.
    pub fn keys(&self) -> &[StateKey] {
        &self.keys
    }

    /// Number of last transactions that run serially, without a prediction.
    pub const fn serial_tail(&self) -> usize {
        self.serial_tail
    }

    /// True if no transaction has a prediction, so that there is no graph either.
    pub(crate) const fn is_unpredicted(&self) -> bool {
        self.serial_tail == self.order.len() && !self.order.is_empty()
    }

    /// True if every transaction has a prediction.
    pub(crate) const fn is_predicted(&self) -> bool {
        self.serial_tail == 0
    }

    /// Number of frames with a member in the block; zero for a given order.
    pub const fn frames(&self) -> usize {
        self.frames
    }
}

/// Transactions that escaped a block because they, or one they depend on, reached outside their predicted sets. The
/// planner must requeue them; none is dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "transactions that left a block are lost unless the planner takes them back"]
pub struct LeftTransactions(pub(crate) Vec<u32>);

impl LeftTransactions {
    /// Number of transactions.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// True if no transaction escaped.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
