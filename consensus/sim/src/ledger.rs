//! Invariants over all honest nodes, checked after every event.

use alloy_primitives::{B256, Bytes};
use phalanx_engine_api::{BlockId, ExecId, ExecOutcome, FatalCause};
use phalanx_pipeline::BlockMeta;
use std::collections::{BTreeMap, BTreeSet};

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Two honest nodes ordered different blocks at one height.
    #[error("two blocks are ordered at height {0}")]
    TwoOrdered(u64),
    /// Two honest nodes committed different blocks or results at one height.
    #[error("two blocks or results are committed at height {0}")]
    TwoCommitted(u64),
    /// A node committed out of order, or twice.
    #[error("node {node} committed height {height} after {after}")]
    OutOfOrder {
        /// Index of the node.
        node: u32,
        /// Height that was committed.
        height: u64,
        /// Committed height of the node before.
        after: u64,
    },
    /// A committed block was gone after a restart.
    #[error("node {node} came back at height {height}, after it had committed {before}")]
    Lost {
        /// Index of the node.
        node: u32,
        /// Height after the restart.
        height: u64,
        /// Committed height before the restart.
        before: u64,
    },
    /// A certificate exists for a block that is not the ordered one.
    #[error("the certified block at height {0} is not the ordered one")]
    CertifiedNotOrdered(u64),
    /// A transaction was committed twice.
    #[error("a transaction is committed twice, again at height {0}")]
    Twice(u64),
    /// Readers saw a state other than the committed one.
    #[error("node {node} shows height {shown} where {height} is committed")]
    Visible {
        /// Index of the node.
        node: u32,
        /// Height that readers see.
        shown: u64,
        /// Committed height.
        height: u64,
    },
    /// An honest node stopped.
    #[error("node {0} stopped: {1}")]
    Halted(u32, FatalCause),
}

/// Orders, commits and halts of honest nodes.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    ordered: BTreeMap<u64, BlockId>,
    committed: BTreeMap<u64, (BlockId, ExecId, B256)>,
    certified: BTreeSet<(u64, BlockId)>,
    txs: BTreeSet<Bytes>,
    heights: BTreeMap<u32, u64>,
    /// Violated invariants, in order of time.
    pub violations: Vec<Violation>,
    /// Nodes that stopped as expected.
    pub halted: BTreeMap<u32, FatalCause>,
}

impl Ledger {
    /// Height up to which all of `nodes` have committed.
    #[must_use]
    pub fn common_height(&self, nodes: impl IntoIterator<Item = u32>) -> u64 {
        nodes.into_iter().map(|node| self.heights.get(&node).copied().unwrap_or(0)).min().unwrap_or(0)
    }

    /// Highest committed height.
    #[must_use]
    pub fn height(&self) -> u64 {
        self.committed.last_key_value().map_or(0, |(height, _)| *height)
    }

    /// Committed block, execution and root at a height.
    #[must_use]
    pub fn at(&self, height: u64) -> Option<(BlockId, ExecId, B256)> {
        self.committed.get(&height).copied()
    }

    pub(crate) fn order(&mut self, height: u64, id: BlockId) {
        if *self.ordered.entry(height).or_insert(id) != id {
            self.violations.push(Violation::TwoOrdered(height));
        }
    }

    pub(crate) fn certify(&mut self, height: u64, id: BlockId) {
        self.certified.insert((height, id));
    }

    pub(crate) fn commit(&mut self, node: u32, meta: BlockMeta, outcome: &ExecOutcome, txs: &[Bytes]) {
        let height = meta.height;
        let after = self.heights.get(&node).copied().unwrap_or(0);
        if height != after + 1 {
            self.violations.push(Violation::OutOfOrder { node, height, after });
        }
        self.heights.insert(node, height);
        let result = (meta.id, outcome.id, outcome.state_root);
        match self.committed.get(&height) {
            Some(known) if *known != result => self.violations.push(Violation::TwoCommitted(height)),
            Some(_) => {}
            None => {
                self.committed.insert(height, result);
                if txs.iter().any(|tx| !self.txs.insert(tx.clone())) {
                    self.violations.push(Violation::Twice(height));
                }
            }
        }
    }

    /// Records a restart. The node may be ahead of its reports, if the power failed between the disk and the report.
    pub(crate) fn back(&mut self, node: u32, height: u64, exec: ExecId) {
        let before = self.heights.get(&node).copied().unwrap_or(0);
        if height < before {
            self.violations.push(Violation::Lost { node, height, before });
        }
        if self.committed.get(&height).is_some_and(|(_, known, _)| *known != exec) {
            self.violations.push(Violation::TwoCommitted(height));
        }
        self.heights.insert(node, height);
    }

    pub(crate) fn visible(&mut self, node: u32, shown: u64, height: u64) {
        if shown != height {
            self.violations.push(Violation::Visible { node, shown, height });
        }
    }

    pub(crate) fn halt(&mut self, node: u32, cause: FatalCause, expected: bool) {
        if !expected {
            self.violations.push(Violation::Halted(node, cause.clone()));
        }
        self.halted.insert(node, cause);
    }

    /// Checks, at the end of a run that healed, that every certified block is the ordered one, or no block is ordered
    /// there yet.
    pub fn close(&mut self) {
        for (height, id) in &self.certified {
            if self.ordered.get(height).is_some_and(|ordered| ordered != id) {
                self.violations.push(Violation::CertifiedNotOrdered(*height));
            }
        }
    }
}
