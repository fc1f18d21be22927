//! Decisions of the engine that the laboratory (`benches/lab`) models, behind the feature `lab`. Not a stable interface.

use crate::{engine, exec::policy::Width, model::Outcome, plan};
use phalanx_parascheduler::{Dag, TxIndex};
use revm::context::TxEnv;

/// Minimum number of transactions of a block that is planned beside another, or whose receipts are sealed beside its
/// root.
pub const MIN_OVERLAP: usize = engine::MIN_OVERLAP;

/// Returns true if a planned block of `txs` transactions is interned in shards.
pub const fn interns_in_shards(threads: usize, txs: usize) -> bool {
    plan::interns_in_shards(threads, txs)
}

/// Returns true if all workers share the wave over `dag`, whose sources are then put in order. O(nodes + edges).
pub fn is_wide<'t>(dag: &mut Dag, critical_path: usize, tx: impl Fn(TxIndex) -> &'t TxEnv) -> bool {
    Width::of(dag, critical_path, tx) == Width::All
}

/// Prefetches the list of an outcome's logs, two lookahead steps before its use.
#[inline]
pub fn prefetch_logs(outcome: &Outcome) {
    outcome.prefetch_logs();
}

/// Prefetches topics and data of an outcome's logs, one lookahead step after [`prefetch_logs`].
#[inline]
pub fn prefetch_contents(outcome: &Outcome) {
    outcome.prefetch_contents();
}
