//! The life of a block: `Block → Executed → Merkleized → committed`, each by value.

use super::info::{BlockInfo, Results, Sealing};
use crate::{
    exec::{
        outcomes::Outcomes,
        run::{Run, RunStats},
    },
    model::{Error, Observer, Txs},
    state::{AccountIndexDelta, Changes, Ticket, Tip},
    trie,
};
use alloy_primitives::B256;
use phalanx_merkle::Prepared;
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
    /// The results, and what they change.
    pub(crate) fn split(self) -> (Results, Changes) {
        let Self { order, outcomes, changes, left, stats } = self;
        (Results { order, outcomes, left, stats }, changes)
    }
}

/// A block that ran.
#[derive(Debug)]
#[must_use = "a block that ran is lost unless it is merkleized and committed"]
pub struct Executed {
    /// The state it ran on.
    pub(crate) parent: Arc<Tip>,
    pub(crate) changes: Changes,
    /// The root, if it was computed beside the execution: then the changes are taken out.
    pub(crate) prepared: Option<Prepared>,
    pub(crate) block: BlockInfo,
}

impl Executed {
    /// Orders the results: prefix sums of gas, receipts, their root and bloom; and sums up what they change. On a worker, if
    /// they are more than 64.
    pub(crate) fn seal(run: Run<'_>, txs: Txs<'_>, sealing: Sealing, observer: &dyn Observer) -> Result<Self, Error> {
        let Run { order, outcomes, after, left, stats } = run;
        let (parent, spec, is_small) = (Arc::clone(&sealing.parent), sealing.spec, outcomes.len() <= trie::PIECE);
        let results = Results { order, outcomes, left, stats };
        let seal = || BlockInfo::seal(results, txs, sealing, observer);
        let sum = || after.into_changes();
        // Neither needs the other.
        let (block, changes) = if is_small { (seal(), sum()) } else { rayon::join(seal, sum) };
        let mut changes = changes?;
        changes.follow(spec);
        Ok(Self { parent, changes, prepared: None, block })
    }

    /// [`Self::seal`] where the changes are at hand.
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
    /// Root of the state after the block.
    pub const fn state_root(&self) -> B256 {
        B256::new(self.prepared.root())
    }

    /// The block.
    pub const fn block(&self) -> &BlockInfo {
        &self.block
    }
}

/// A block that is part of the chain.
#[derive(Debug)]
#[must_use = "the block is durable only once its ticket says so"]
pub struct Committed {
    /// The block.
    pub block: BlockInfo,
    /// Root of the state after it.
    pub state_root: B256,
    /// Tells when it is durable.
    pub ticket: Ticket,
}
