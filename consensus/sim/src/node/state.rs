//! State of a node, and what all of its steps use.

use crate::{
    bft::{Block, Cert, Named as _, Out, Record, Replica},
    machine::{EngineOf, Machine, Workshop as _},
    marks::{BlockMarks, Span},
    pool::Pool,
    setup::Setup,
    wire::Certified,
};
use alloy_primitives::{B256, Bytes};
use phalanx_engine_api::{BlockId, EngineEvent, ExecId, ExecutionEngine as _, Payload, TxStatus};
use phalanx_pipeline::{BlockMeta, Committee, Config, ConsensusEvent, Effect, PayloadRef, Pipeline};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// A line of a validator's log.
#[derive(Clone, Debug)]
pub(super) enum Line {
    Bft(Record),
    Ordered(Arc<Block>, Option<Cert>),
}

/// A step of a node.
#[derive(Debug)]
pub(super) enum Todo {
    Out(Out),
    Consensus(ConsensusEvent),
    Effect(Effect),
    Engine(EngineEvent),
}

/// Times at which an execution went through the engine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExecMarks {
    pub(super) execute: Span,
    pub(super) root: Span,
    pub(super) stage: Span,
    pub(super) flip: Span,
}

/// A block that the node has committed.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) meta: BlockMeta,
    pub(crate) payload: Arc<Payload>,
    pub(super) statuses: Arc<[TxStatus]>,
    pub(crate) marks: BlockMarks,
}

impl Done {
    /// Transactions that were not skipped.
    pub(crate) fn executed(&self) -> impl Iterator<Item = &Bytes> {
        let all = self.payload.txs().iter().zip(self.statuses.iter());
        all.filter(|(_, status)| **status != TxStatus::Skipped).map(|(tx, _)| tx)
    }
}

#[derive(Debug)]
pub(crate) struct Node<M: Machine> {
    pub(crate) index: u32,
    /// Validator that a fullnode follows; `None` for a validator.
    pub(crate) upstream: Option<u32>,
    pub(super) followers: Vec<u32>,
    /// Number of power cuts so far.
    pub(crate) epoch: u32,
    pub(super) replica: Option<Replica>,
    pub(super) pipeline: Pipeline,
    pub(crate) machine: M,
    /// `None` while the power is cut.
    pub(crate) workshop: Option<M::Workshop>,
    pub(super) log: Vec<Line>,
    pub(super) synced: usize,
    pub(super) history: BTreeMap<u64, (Arc<Block>, Option<Cert>)>,
    pub(super) certificates: BTreeMap<u64, Certified>,
    /// Blocks above the committed height.
    pub(super) known: BTreeMap<BlockId, Arc<Block>>,
    /// Payloads that a fullnode received.
    pub(super) carried: BTreeMap<BlockId, Arc<Payload>>,
    /// Blocks with missing batches.
    pub(super) incomplete: Vec<Arc<Block>>,
    /// Own state votes above the committed height.
    pub(super) voted: BTreeMap<u64, (BlockId, B256)>,
    pub(super) pool: Pool,
    pub(super) batches: u64,
    pub(super) sent: u64,
    /// True while consensus should propose nothing.
    pub(super) hold: bool,
    /// True if the engine may have work to begin.
    pub(super) touched: bool,
    pub(super) asked: u32,
    pub(super) last_height: u64,
    pub(crate) steps: u64,
    /// Number of stagings and commits that have ended.
    pub(crate) writes: u64,
    pub(super) todo: VecDeque<Todo>,
    pub(super) marks: BTreeMap<BlockId, BlockMarks>,
    pub(super) exec_marks: BTreeMap<ExecId, ExecMarks>,
    pub(crate) done: Vec<Done>,
    /// Time that the executor spent on committed blocks, in µs. `wasted_us` counts the blocks that lost.
    pub(crate) used_us: u64,
    pub(crate) wasted_us: u64,
}

impl<M: Machine> Node<M> {
    /// Creates a node. Indices of validators come first, then those of fullnodes.
    pub(crate) fn new(index: u32, setup: &Setup, machine: M, workshop: M::Workshop) -> Self {
        let n = setup.bft.n;
        // Fullnodes begin at the second validator: in ideal worlds the first one leads.
        let upstream_of = |fullnode: u32| (fullnode + 1) % n;
        let upstream = index.checked_sub(n).map(upstream_of);
        let followers = if upstream.is_some() {
            Vec::new()
        } else {
            (0..setup.fullnodes).filter(|f| upstream_of(*f) == index).map(|f| n + f).collect()
        };
        let pipeline = Self::pipeline(upstream.is_some(), setup, workshop.engine());
        Self {
            index,
            upstream,
            followers,
            epoch: 0,
            replica: None,
            pipeline,
            machine,
            workshop: Some(workshop),
            log: Vec::new(),
            synced: 0,
            history: BTreeMap::new(),
            certificates: BTreeMap::new(),
            known: BTreeMap::new(),
            carried: BTreeMap::new(),
            incomplete: Vec::new(),
            voted: BTreeMap::new(),
            pool: Pool::default(),
            batches: 0,
            sent: 0,
            hold: false,
            touched: true,
            asked: 0,
            last_height: 0,
            steps: 0,
            writes: 0,
            todo: VecDeque::new(),
            marks: BTreeMap::new(),
            exec_marks: BTreeMap::new(),
            done: Vec::new(),
            used_us: 0,
            wasted_us: 0,
        }
    }

    /// The engine, unless the power is cut.
    pub(crate) fn engine(&self) -> Option<&EngineOf<M>> {
        self.workshop.as_ref().map(M::Workshop::engine)
    }

    pub(super) fn pipeline(fullnode: bool, setup: &Setup, engine: &EngineOf<M>) -> Pipeline {
        let committee = Committee::equal(setup.bft.n);
        let config = if fullnode { Config::fullnode(committee) } else { Config::validator(committee) };
        Pipeline::new(Config { mode: setup.mode, limits: setup.limits, ..config }, &engine.status())
    }

    /// Hands the pipeline a block that it may have missed.
    pub(super) fn replay(&mut self, block: &Arc<Block>, ordered: bool) {
        self.known.insert(block.name(), block.clone());
        let payload = PayloadRef::Here(block.content.payload.clone());
        self.todo.push_back(Todo::Consensus(ConsensusEvent::Proposed {
            meta: block.meta(),
            env: block.content.env,
            payload,
        }));
        if ordered {
            let (tip, height) = (block.name(), block.content.env.height);
            self.todo.push_back(Todo::Consensus(ConsensusEvent::Ordered { tip, height, proof: Default::default() }));
        }
    }
}
