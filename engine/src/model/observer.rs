//! Stages of a block, and the observer that is notified of them.

use phalanx_merkle::ForkJoinObserver;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// A stage of a block's way through the engine, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Senders from signatures.
    Recover,
    /// Access sets (ParaLyze); of what no planner has planned, dense ids, too.
    Analyse,
    /// Conflict-free frames (ParaFramer) and block formation.
    Frame,
    /// Dense ids for the keys of a planned block.
    Intern,
    /// The DAG of a planned block, ahead of its execution.
    Graph,
    /// Loading of current values; the DAG, where none was made ahead.
    Schedule,
    /// EVM.
    Execute,
    /// Gas, receipts, bloom, receipts root.
    Seal,
    /// State delta and root.
    Merkle,
    /// Durable write.
    Persist,
}

impl Stage {
    /// All stages in order.
    pub const ALL: [Self; 10] = [
        Self::Recover,
        Self::Analyse,
        Self::Frame,
        Self::Intern,
        Self::Graph,
        Self::Schedule,
        Self::Execute,
        Self::Seal,
        Self::Merkle,
        Self::Persist,
    ];

    /// Whether it belongs to planning: it needs no more than a snapshot, and may run ahead of the blocks before.
    pub const fn is_planning(self) -> bool {
        matches!(self, Self::Analyse | Self::Frame | Self::Intern | Self::Graph)
    }

    /// The name that results use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recover => "recover",
            Self::Analyse => "analyse",
            Self::Frame => "frame",
            Self::Intern => "intern",
            Self::Graph => "graph",
            Self::Schedule => "schedule",
            Self::Execute => "execute",
            Self::Seal => "seal",
            Self::Merkle => "merkle",
            Self::Persist => "persist",
        }
    }
}

/// Is told when stages begin and end. The library reads no clock; whoever wants times hands in an observer that does.
///
/// Both calls come from the thread that drives the stage. [`Stage::Persist`] has a thread of its own and overlaps the
/// other stages. With [`crate::Engine::execute_and_plan`] the stages of planning ([`Stage::is_planning`]) overlap those of
/// execution and, where a block is formed ahead, each other; and [`Stage::Seal`] overlaps [`Stage::Merkle`]. Otherwise
/// stages do not overlap.
pub trait Observer: Send + Sync {
    /// `stage` begins.
    fn enter(&self, stage: Stage);
    /// `stage` has ended.
    fn leave(&self, stage: Stage);
    /// A part of `stage` begins that all threads work on, in at most so many pieces. The rest of a stage runs on one thread,
    /// so that these parts tell how it would scale. Of [`Stage::Execute`], first the wave: the pieces are transactions, in
    /// the order of their DAG, and all threads work on them only if [`crate::exec::policy::Width`] says so; then, in a large block, the
    /// gathering of its delta. [`Stage::Merkle`], the root and later the state's move, has several, which are told under the
    /// store's locks: it must neither use the engine nor wait for anybody who does. Default: nothing.
    fn fork(&self, _stage: Stage, _pieces: usize) {}
    /// That part has ended.
    fn join(&self, _stage: Stage) {}
}

impl core::fmt::Debug for dyn Observer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Observer")
    }
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn enter(&self, _: Stage) {}
    fn leave(&self, _: Stage) {}
}

/// [`Stage::Merkle`] of an observer, whom it tells what threads share in the store while the stage is going on: the store
/// is also used before there are blocks, and beside the execution of some.
#[derive(Debug)]
pub(crate) struct StoreStage {
    observer: Arc<dyn Observer>,
    is_open: AtomicBool,
}

impl StoreStage {
    pub(crate) fn new(observer: Arc<dyn Observer>) -> Self {
        Self { observer, is_open: AtomicBool::new(false) }
    }

    /// Reports the stage around `work`.
    pub(crate) fn observe<R>(&self, work: impl FnOnce() -> R) -> R {
        observe(&*self.observer, Stage::Merkle, || {
            self.is_open.store(true, Relaxed);
            let result = work();
            self.is_open.store(false, Relaxed);
            result
        })
    }
}

impl ForkJoinObserver for StoreStage {
    fn fork(&self, pieces: usize) {
        if self.is_open.load(Relaxed) {
            self.observer.fork(Stage::Merkle, pieces);
        }
    }

    fn join(&self) {
        if self.is_open.load(Relaxed) {
            self.observer.join(Stage::Merkle);
        }
    }
}

/// Reports that all threads work on `stage` in `work`.
pub(crate) fn observe_fork<R>(observer: &dyn Observer, stage: Stage, pieces: usize, work: impl FnOnce() -> R) -> R {
    observer.fork(stage, pieces);
    let result = work();
    observer.join(stage);
    result
}

/// Reports `stage` around `work`.
pub(crate) fn observe<R>(observer: &dyn Observer, stage: Stage, work: impl FnOnce() -> R) -> R {
    observer.enter(stage);
    let result = work();
    observer.leave(stage);
    result
}
