//! The life of a block: `Block → Executed → Merkleized → committed`, each by value.

use super::info::{BlockInfo, Results, Sealing};
use crate::{
    chain::BlockOutcome,
    exec::{
        outcomes::Outcomes,
        run::{Run, RunStats},
    },
    model::{Error, Observer, Txs},
    state::{AccountIndexDelta, Changes, Prepared, Tip, WriteHandle},
    trie,
};
use alloy_primitives::B256;
use std::sync::Arc;

/// A run with the sum of its changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ran {
    pub(crate) order: Vec<u32>,
    pub(crate) outcomes: Outcomes,
    pub(crate) changes: Changes,
    pub(crate) left: Vec<u32>,
    pub(crate) stats: RunStats,
}

impl Ran {
    /// Splits into the results and their changes.
    pub(crate) fn split(self) -> (Results, Changes) {
        let Self { order, outcomes, changes, left, stats } = self;
        (Results { order, outcomes, left, stats }, changes)
    }
}

/// A block after its execution.
#[derive(Debug)]
#[must_use = "a block that ran is lost unless it is merkleized and committed"]
pub struct Executed {
    /// State that the block ran on.
    pub(crate) parent: Arc<Tip>,
    pub(crate) changes: Changes,
    /// Root, if it was computed beside the execution: the changes are taken out then.
    pub(crate) prepared: Option<Prepared>,
    pub(crate) block: BlockInfo,
}

impl Executed {
    /// Orders the results (prefix sums of gas, receipts, their root and bloom) and sums up their changes. Uses a worker
    /// for more than 64 of them.
    pub(crate) fn seal(run: Run<'_>, txs: Txs<'_>, sealing: Sealing, observer: &dyn Observer) -> Result<Self, Error> {
        let Run { order, outcomes, after, left, stats } = run;
        let (parent, spec, is_small) = (Arc::clone(&sealing.parent), sealing.spec, outcomes.len() <= trie::PIECE);
        let results = Results { order, outcomes, left, stats };
        let seal = || BlockInfo::seal(results, txs, sealing, observer);
        let sum = || after.into_changes();
        // The two are independent.
        let (block, changes) = if is_small { (seal(), sum()) } else { rayon::join(seal, sum) };
        let mut changes = changes?;
        changes.follow(spec);
        Ok(Self { parent, changes, prepared: None, block })
    }

    /// Seals like [`Self::seal`], with the changes at hand.
    pub(crate) fn sealed(ran: Ran, txs: Txs<'_>, sealing: Sealing, observer: &dyn Observer) -> Self {
        let parent = Arc::clone(&sealing.parent);
        let (results, mut changes) = ran.split();
        changes.follow(sealing.spec);
        Self { parent, changes, prepared: None, block: BlockInfo::seal(results, txs, sealing, observer) }
    }

    /// The block.
    pub const fn block(&self) -> &BlockInfo {
        &self.block
    }
}

/// A block with the root of the state after it.
#[derive(Debug)]
#[must_use = "a merkleized block is lost unless it is committed"]
pub struct Merkleized {
    pub(crate) prepared: Prepared,
    pub(crate) accounts: AccountIndexDelta,
    pub(crate) block: BlockInfo,
}

impl Merkleized {
    /// Root of the state after the block, of the kind that the chain reports.
    pub const fn state_root(&self) -> B256 {
        self.prepared.root()
    }

    /// Results that the header of the block states: for
    /// [`ChainSpec::check_outcome`](crate::chain::ChainSpec::check_outcome), or for a header that is being built.
    pub fn outcome(&self) -> BlockOutcome {
        self.block.outcome(self.state_root())
    }

    /// The block.
    pub const fn block(&self) -> &BlockInfo {
        &self.block
    }
}

/// A block that is part of the chain.
#[derive(Debug)]
#[must_use = "the block is durable only once its handle says so"]
pub struct Committed {
    /// The block.
    pub block: BlockInfo,
    /// Root of the state after it.
    pub state_root: B256,
    /// Completes when the block is durable.
    pub write: WriteHandle,
}
