//! The thread on which a block in a given order runs: a worker, or the caller where waking a worker takes longer.

use super::Engine;
use crate::{
    exec::policy::is_short,
    model::{Executor, Hints},
    state::StateRef,
};
use revm::context::TxEnv;
use std::sync::Arc;

/// Thread that executes a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunOn {
    /// The caller: serially, without hints and with nothing that would need another thread.
    Caller {
        /// False for a block that is over before a thread is awake.
        teaches: bool,
    },
    /// A worker, with the others.
    Worker,
}

impl RunOn {
    /// True if the engine may learn from the block.
    pub(super) const fn teaches(self) -> bool {
        !matches!(self, Self::Caller { teaches: false })
    }
}

impl Engine {
    /// Chooses the thread for a block.
    pub(super) fn run_on(&self, txs: &[TxEnv], hints: &Hints<'_>) -> RunOn {
        let Self { state, paralyze, executor, .. } = self;
        // A block with a list runs on the list's values, on all threads.
        if matches!(hints, Hints::AccessList { .. }) || !is_short(txs) {
            return RunOn::Worker;
        }
        let policy = self.resources().policy();
        if *executor == Executor::BlockStm {
            return if policy.has_nothing_ahead(txs) { RunOn::Caller { teaches: false } } else { RunOn::Worker };
        }
        if policy.is_brief(txs) {
            return RunOn::Caller { teaches: false };
        }
        // Hints or known predictions may be worth other threads.
        let is_unknown = || match hints {
            Hints::Predict => txs.iter().any(|tx| !paralyze.is_ruled(&StateRef::Own(state), tx)),
            Hints::None => true,
            _ => false,
        };
        if policy.prefers_caller(txs) && (*executor == Executor::Sequential || is_unknown()) {
            return RunOn::Caller { teaches: true };
        }
        RunOn::Worker
    }

    /// Calls `op` on that thread. On a worker it runs from beginning to end: some systems leave threads that are woken
    /// between stages on one core.
    pub(super) fn at<T: Send>(&mut self, run_on: RunOn, op: impl FnOnce(&mut Self) -> T + Send) -> T {
        match run_on {
            RunOn::Caller { .. } => op(self),
            RunOn::Worker => {
                let workers = Arc::clone(&self.workers);
                workers.install(|| op(self))
            }
        }
    }
}
