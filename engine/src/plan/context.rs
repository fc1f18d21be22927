//! The parts of the engine that planning receives.

use crate::{model::Observer, plan::intern::interns_in_shards, state::StateRef};
use phalanx_parascheduler::Workers;

/// The engine's parts that planning needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanContext<'e> {
    pub(crate) state: StateRef<'e>,
    pub(crate) workers: &'e Workers,
    pub(crate) observer: &'e (dyn Observer + 'static),
    /// True if blocks run on the graph of their conflicts.
    pub(crate) builds_graphs: bool,
    /// True if all threads take part wherever they can, as tests want it.
    pub(crate) force_parallel: bool,
}

impl PlanContext<'_> {
    /// True if the keys of this many transactions are interned on all threads.
    pub(crate) fn interns_in_shards(&self, txs: usize) -> bool {
        self.force_parallel || interns_in_shards(self.workers.threads(), txs)
    }
}

/// Runs both, in parallel if `overlaps`.
pub(crate) fn join_if<A: Send, B: Send>(
    overlaps: bool,
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    if overlaps { rayon::join(a, b) } else { (a(), b()) }
}
