//! Stages of a block, and the observer that is notified of them.

use phalanx_merkle::ForkJoinObserver;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// A stage of a block in the engine. The order is that of their begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Senders from signatures.
    Recover,
    /// Access sets (ParaLyze); for transactions without a plan, dense ids as well.
    Analyse,
    /// Conflict-free frames (ParaFramer) and block formation.
    Frame,
    /// Dense ids for the keys of a planned block.
    Intern,
    /// The DAG of a planned block, ahead of its execution.
    Graph,
    /// Loading of current values; and the DAG, where none was built ahead.
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

    /// True if the stage belongs to planning: it needs no more than a snapshot, and may run ahead of the blocks before.
    pub const fn is_planning(self) -> bool {
        matches!(self, Self::Analyse | Self::Frame | Self::Intern | Self::Graph)
    }

    /// Name of the stage in results.
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

/// Observer of stages: called when they begin and end. The library reads no clock; an observer that measures times
/// reads one.
///
/// Both calls come from the thread that drives the stage. [`Stage::Persist`] has a thread of its own and overlaps the
/// other stages. With [`crate::Engine::execute_and_plan`] the stages of planning ([`Stage::is_planning`]) overlap those of
/// execution and, where a block is assembled ahead, each other; and [`Stage::Seal`] overlaps [`Stage::Merkle`].
/// Otherwise stages do not overlap.
pub trait Observer: Send + Sync {
    /// `stage` begins.
    fn enter(&self, stage: Stage);
    /// `stage` has ended.
    fn leave(&self, stage: Stage);
    /// Called when a part of `stage` begins that all threads share, in at most `pieces` chunks. The rest of a stage
    /// runs on one thread, so that these parts show how the stage scales. [`Stage::Execute`] has first the wave: its
    /// chunks are transactions in DAG order, and all threads share them only if the choice of the width says so. In a
    /// large block the gathering of the delta follows. [`Stage::Merkle`] has several parts, for the root and for
    /// applying it, reported under the store's locks: the observer must neither use the engine nor wait for a thread
    /// that does. Default: nothing.
    fn fork(&self, _stage: Stage, _pieces: usize) {}
    /// Called when that part has ended.
    fn join(&self, _stage: Stage) {}
}

impl core::fmt::Debug for dyn Observer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Observer")
    }
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn enter(&self, _: Stage) {}
    fn leave(&self, _: Stage) {}
}

/// [`Stage::Merkle`] of an observer. Reports the store's parallel parts only during the stage: the store is also used
/// before there are blocks, and beside the execution of some.
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
