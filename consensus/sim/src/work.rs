//! Work of the model's resources, and its cost in virtual time.

use phalanx_engine_api::desk::{Job, JobKind};

/// Cost of work, in microseconds or nanoseconds of virtual time.
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

/// A piece of work in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Work {
    /// Job and block.
    pub job: Job,
    /// Duration, in µs.
    pub cost_us: u64,
}

impl Costs {
    /// Duration of a job for a block of `txs` transactions, in µs.
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
