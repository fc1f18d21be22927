//! Configuration, result, statistics and errors of a Block-STM run.

use super::{
    apart::MAX_PARKS,
    program::{Commit, Program},
};
use crate::dag::TxIndex;
use core::fmt;
use phalanx_access::Salt;
use thiserror::Error;

/// Configuration of a Block-STM run. Nothing here changes a result.
#[derive(Clone, Copy, Debug)]
pub struct StmConfig {
    /// Secret of the digests in the table of keys.
    pub salt: Salt,
    /// Maximum number of executions of a transaction before all lower transactions are final; at least one.
    pub attempts: u32,
    /// Seed of a pattern that disturbs the schedule; for tests.
    pub schedule_seed: Option<u64>,
}

impl StmConfig {
    /// Creates the default configuration: three attempts, an undisturbed schedule.
    pub const fn new(salt: Salt) -> Self {
        Self { salt, attempts: 3, schedule_seed: None }
    }

    /// Maximum number of executions of one transaction that end at a value to be read [apart](Program::reads_apart).
    pub const MAX_PARKS: u32 = MAX_PARKS;

    /// Maximum number of executions of one transaction, for every block and schedule.
    ///
    /// These are its speculative attempts, one as the lowest, and one more if it credits a value that would overflow. A program
    /// that [reads apart](Program::reads_apart) has [`Self::MAX_PARKS`] more.
    pub const fn max_executions(&self) -> u32 {
        (if self.attempts == 0 { 1 } else { self.attempts }).saturating_add(2)
    }
}

/// Result of a Block-STM run. All but `stats` equals the result of a loop over the transactions.
pub struct StmReport<P: Program> {
    /// Output of each transaction; of a prefix if [`Program::commit`] ended the run.
    pub outputs: Vec<P::Output>,
    /// Final value of every written key, in no particular order.
    pub writes: Vec<(P::Key, P::Value)>,
    /// Set if [`Program::commit`] ended the run: before or after the last transaction that it saw.
    pub stopped: Option<Commit>,
    /// Statistics, which depend on the schedule.
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

/// Statistics of a Block-STM run. They depend on the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StmStats {
    /// Number of executions begun.
    pub executions: u64,
    /// Number of executions that ended at an estimate.
    pub blocked: u64,
    /// Number of executions that had read a value that changed, found while they ran or afterwards.
    pub invalidated: u64,
    /// Number of outcomes that were refused when all lower transactions were final.
    pub refused: u64,
    /// Number of executions that ended at a value to be read [apart](Program::reads_apart).
    pub parked: u64,
    /// Number of values for which a worker waited, though the program reads apart: it was the only worker, the transaction had
    /// ended so before [often enough](StmConfig::MAX_PARKS), a value could not be read, or no thread could be started.
    pub waits: u64,
    /// Maximum number of executions of one transaction.
    pub max_incarnation: u32,
}

impl StmStats {
    pub(super) fn add(&mut self, other: &Self) {
        self.executions += other.executions;
        self.blocked += other.blocked;
        self.invalidated += other.invalidated;
        self.refused += other.refused;
        self.parked += other.parked;
        self.waits += other.waits;
        self.max_incarnation = self.max_incarnation.max(other.max_incarnation);
    }
}

/// Reason why a Block-STM run has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StmError<E> {
    /// The transaction could not read the state before the run, and needs it at its place in the order.
    #[error("transaction {}: the state could not be read: {source}", index.0)]
    Base {
        /// The lowest such transaction.
        index: TxIndex,
        /// Error of [`Program::base`].
        source: E,
    },
    /// The transaction credits a value that overflows, though its view was [exact](super::program::View::exact).
    #[error("transaction {}: a credit overflows; an exact view asks for no credits", index.0)]
    CreditOverflow {
        /// The lowest such transaction.
        index: TxIndex,
    },
}
