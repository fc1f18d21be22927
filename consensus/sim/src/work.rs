//! What the model's resources do, and for how long.

use phalanx_engine_api::desk::{Job, JobKind};

/// Time that work takes, in microseconds or nanoseconds of virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Execution of one transaction, ns.
    pub execute_ns_per_tx: u64,
    /// Execution of a block besides its transactions, µs.
    pub execute_us: u64,
    /// Roots, per transaction, ns.
    pub root_ns_per_tx: u64,
    /// Staging a block, µs.
    pub stage_us: u64,
    /// Staging, per transaction, ns.
    pub stage_ns_per_tx: u64,
    /// The marker flip, µs.
    pub flip_us: u64,
}

/// A piece of work that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Work {
    /// What is done, and for which block.
    pub job: Job,
    /// How long it takes, µs.
    pub cost_us: u64,
}

impl Costs {
    /// What a job for a block of so many transactions takes, µs.
    #[must_use]
    pub const fn of(&self, kind: JobKind, txs: u64) -> u64 {
        match kind {
            JobKind::Execute => self.execute_us + txs * self.execute_ns_per_tx / 1000,
            JobKind::Root => txs * self.root_ns_per_tx / 1000,
            JobKind::Stage => self.stage_us + txs * self.stage_ns_per_tx / 1000,
            JobKind::Commit => self.flip_us,
        }
    }
}
