use super::{Commit, Program};
use crate::TxIndex;
use core::fmt;
use phalanx_access::Salt;
use thiserror::Error;

/// How a Block-STM run goes about it. Nothing here changes a result.
#[derive(Clone, Copy, Debug)]
pub struct StmConfig {
    /// Keys the digests of the table of keys.
    pub salt: Salt,
    /// How often a transaction is run at most before all lower ones are final; at least once.
    pub attempts: u32,
    /// Disturbs the schedule to a pattern drawn from this seed; for tests.
    pub schedule_seed: Option<u64>,
}

impl StmConfig {
    /// The defaults: three attempts, an undisturbed schedule.
    pub const fn new(salt: Salt) -> Self {
        Self { salt, attempts: 3, schedule_seed: None }
    }

    /// How often one transaction is executed at most, whatever the block and the schedule: its speculative attempts, one
    /// when it is lowest, and one more if it credits a value that would overflow.
    pub const fn max_executions(&self) -> u32 {
        (if self.attempts == 0 { 1 } else { self.attempts }).saturating_add(2)
    }
}

/// What a Block-STM run leaves. All but `stats` is what a loop over the transactions would leave.
pub struct StmReport<P: Program> {
    /// By transaction, a prefix if [`Program::commit`] ended the run.
    pub outputs: Vec<P::Output>,
    /// Value of every key that they wrote, after the last of them; in no particular order.
    pub writes: Vec<(P::Key, P::Value)>,
    /// How [`Program::commit`] ended the run, if it did: before or after the last transaction that it saw.
    pub stopped: Option<Commit>,
    /// What it took.
    pub stats: StmStats,
}

impl<P: Program> fmt::Debug for StmReport<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StmReport")
            .field("outputs", &self.outputs.len())
            .field("writes", &self.writes.len())
            .field("stopped", &self.stopped)
            .field("stats", &self.stats)
            .finish()
    }
}

/// What a Block-STM run took. Depends on the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StmStats {
    /// Executions begun, whole or not.
    pub executions: u64,
    /// Those that ended at an estimate.
    pub blocked: u64,
    /// Those that had read what was no longer there, found while running or afterwards.
    pub invalidated: u64,
    /// Outcomes refused when all lower transactions were final.
    pub refused: u64,
    /// Most executions of one transaction.
    pub max_incarnation: u32,
}

impl StmStats {
    pub(super) fn add(&mut self, other: &Self) {
        self.executions += other.executions;
        self.blocked += other.blocked;
        self.invalidated += other.invalidated;
        self.refused += other.refused;
        self.max_incarnation = self.max_incarnation.max(other.max_incarnation);
    }
}

/// Why a Block-STM run has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StmError<E> {
    /// The state before the run could not be read by the transaction, which needs it at its place in the order.
    #[error("transaction {}: the state could not be read: {source}", index.0)]
    Base {
        /// The lowest such transaction.
        index: TxIndex,
        /// What [`Program::base`] said.
        source: E,
    },
    /// The transaction credits a value that overflows, though its view was [exact](super::View::exact).
    #[error("transaction {}: a credit overflows; an exact view asks for no credits", index.0)]
    CreditOverflow {
        /// The lowest such transaction.
        index: TxIndex,
    },
}
