//! The final transactions of a run.

use super::{
    memory::Memory,
    program::{Commit, Program},
    report::{StmError, StmReport, StmStats},
};

/// Outputs of the final transactions, in order, and how the run ended.
pub(super) struct Ledger<P: Program> {
    total: usize,
    pub(super) outputs: Vec<P::Output>,
    pub(super) ended: Option<Ended<P::Error>>,
}

/// End of a run before its last transaction.
pub(super) enum Ended<E> {
    Stopped(Commit),
    Failed(StmError<E>),
}

impl<P: Program> Ledger<P> {
    pub(super) fn new(total: u32) -> Self {
        Self { total: total as usize, outputs: Vec::with_capacity(total as usize), ended: None }
    }

    /// Returns the lowest transaction that is not final, unless the run is over.
    pub(super) const fn lowest(&self) -> Option<u32> {
        if self.ended.is_none() && self.outputs.len() < self.total { Some(self.outputs.len() as u32) } else { None }
    }

    pub(super) fn into_report(
        self,
        memory: &mut Memory<P::Key, P::Value, P::Credit>,
        stats: StmStats,
    ) -> Result<StmReport<P>, StmError<P::Error>> {
        let stopped = match self.ended {
            None => None,
            Some(Ended::Stopped(how)) => Some(how),
            Some(Ended::Failed(error)) => return Err(error),
        };
        Ok(StmReport { outputs: self.outputs, writes: memory.take_written(), stopped, stats })
    }
}
