//! State of the pipeline, and what all rules use.

use super::track::{EarlyVote, Tracked, Work};
use crate::{
    config::Config,
    event::{Backpressure, BlockMeta, Certificate, Effect, Incident},
};
use alloy_primitives::{B256, Bytes};
use phalanx_engine_api::{BlockId, EngineStatus, ExecId, ExecOutcome, FatalCause, Payload, Ticket};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Maximum number of orders, and of certificates, kept for blocks not seen yet. They are proved, so at most one per
/// height and round exists.
const EARLY_PROOFS: usize = 128;

/// The pipeline of one node.
#[derive(Clone, Debug)]
pub struct Pipeline {
    pub(super) config: Config,
    pub(super) chain: u64,
    /// Blocks above the committed height.
    pub(super) blocks: BTreeMap<BlockId, Tracked>,
    /// The same blocks, parents before children.
    pub(super) by_height: BTreeSet<(u64, BlockId)>,
    pub(super) works: BTreeMap<ExecId, Work>,
    pub(super) payloads: BTreeMap<B256, Arc<Payload>>,
    pub(super) committed: Tip,
    /// Committed blocks, newest last, to recognise repetitions.
    pub(super) recent: VecDeque<Recent>,
    /// Newest block whose whole path is decided.
    pub(super) decided: Option<(u64, BlockId)>,
    /// Decided blocks with gaps below, and their heights.
    pub(super) unlinked: BTreeMap<BlockId, u64>,
    pub(super) early: Early,
    pub(super) requested: Requested,
    /// Highest decided height that was announced.
    pub(super) announced: u64,
    pub(super) commits: Commits,
    pub(super) finalised: Finalised,
    pub(super) pressure: Backpressure,
    pub(super) timer_set: bool,
    pub(super) rest: Rest,
    pub(super) halted: bool,
    pub(super) ticket: u64,
}

/// Proofs and votes of blocks not seen yet, orders and certificates with their heights.
#[derive(Clone, Debug, Default)]
pub(super) struct Early {
    pub(super) orders: BTreeMap<BlockId, (u64, Bytes)>,
    pub(super) certificates: BTreeMap<BlockId, (u64, Certificate)>,
    pub(super) votes: BTreeMap<u32, VecDeque<EarlyVote>>,
}

/// Data that consensus owes.
#[derive(Clone, Debug, Default)]
pub(super) struct Requested {
    pub(super) payloads: BTreeSet<B256>,
    /// Highest decided height that was requested.
    pub(super) heights: u64,
}

/// The commit in flight, and whether the next one waits for the timer.
#[derive(Clone, Debug, Default)]
pub(super) struct Commits {
    pub(super) in_flight: Option<(Ticket, BlockId)>,
    pub(super) later: bool,
}

/// Height that the engine has finalised, and the one that consensus has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finalised {
    pub(super) done: u64,
    pub(super) wanted: u64,
}

/// The committed block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tip {
    pub(super) height: u64,
    pub(super) block: BlockId,
    pub(super) exec: ExecId,
}

/// A committed block.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    pub(super) height: u64,
    pub(super) id: BlockId,
    /// Place and result, if the block was committed since the node opened.
    pub(super) known: Option<(BlockMeta, ExecOutcome)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Running,
    /// Rest was requested.
    Resting(Ticket),
    Rested,
}

impl Pipeline {
    /// Creates a pipeline on top of the engine's committed block. Staged blocks are found again when they are proposed
    /// again.
    #[must_use]
    pub fn new(config: Config, status: &EngineStatus) -> Self {
        let committed =
            Tip { height: status.committed.height, block: status.committed.meta.block, exec: status.committed.exec };
        Self {
            config,
            chain: status.chain,
            blocks: BTreeMap::new(),
            by_height: BTreeSet::new(),
            works: BTreeMap::new(),
            payloads: BTreeMap::new(),
            committed,
            recent: VecDeque::from([Recent { height: committed.height, id: committed.block, known: None }]),
            decided: None,
            unlinked: BTreeMap::new(),
            early: Early::default(),
            requested: Requested { payloads: BTreeSet::new(), heights: committed.height },
            announced: committed.height,
            commits: Commits::default(),
            finalised: Finalised { done: status.finalised, wanted: status.finalised },
            pressure: Backpressure::default(),
            timer_set: false,
            rest: Rest::Running,
            halted: false,
            ticket: 0,
        }
    }

    /// Height and name of the committed block.
    #[must_use]
    pub const fn committed(&self) -> (u64, BlockId) {
        (self.committed.height, self.committed.block)
    }

    /// True if the pipeline has stopped for good.
    #[must_use]
    pub const fn is_halted(&self) -> bool {
        self.halted
    }

    /// Number of tracked blocks: at most depth × siblings, and the decided path.
    #[must_use]
    pub fn tracked(&self) -> usize {
        self.blocks.len()
    }

    pub(super) const fn next(&mut self) -> Ticket {
        self.ticket += 1;
        Ticket(self.ticket)
    }

    pub(super) fn announce(&mut self, height: u64) {
        self.announced = self.announced.max(height);
    }

    /// Stops for good.
    pub(super) fn halt(
        &mut self,
        cause: FatalCause,
        id: Option<BlockId>,
        certificate: Option<Certificate>,
        out: &mut Vec<Effect>,
    ) {
        if self.halted {
            return;
        }
        self.halted = true;
        let (block, outcome) = match id.and_then(|id| self.blocks.get(&id)) {
            Some(block) => {
                let work = block.exec.and_then(|exec| self.works.get(&exec));
                (Some(block.meta), work.and_then(|work| work.outcome()).cloned())
            }
            None => {
                let recent = self.recent.iter().find(|recent| Some(recent.id) == id);
                recent.and_then(|recent| recent.known.clone()).unzip()
            }
        };
        out.push(Effect::Halt(Box::new(Incident { cause, block, outcome, certificate })));
    }

    /// Halts because of a fork between the committed and the decided chain.
    pub(super) fn fork(&mut self, height: u64, id: BlockId, out: &mut Vec<Effect>) {
        self.halt(FatalCause::Fork { height }, Some(id), None, out);
    }
}

/// Inserts into a map that holds at most [`EARLY_PROOFS`] entries; the highest are evicted, since they can be fetched
/// again.
pub(super) fn bounded<T>(map: &mut BTreeMap<BlockId, (u64, T)>, id: BlockId, value: (u64, T)) {
    map.insert(id, value);
    if map.len() > EARLY_PROOFS
        && let Some(highest) = map.iter().max_by_key(|(_, (height, _))| *height).map(|(id, _)| *id)
    {
        map.remove(&highest);
    }
}
