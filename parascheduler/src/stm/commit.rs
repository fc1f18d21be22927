//! The rolling commit: makes transactions final, in order, and is where correctness lives.
//!
//! A transaction becomes final only if every value it read equals the value that all lower transactions, which are
//! final, left there. By induction its outcome is that of a loop over the transactions, whatever the schedule did. All
//! else in this module decides only when, and after how many attempts.

use super::{
    Commit, Program, StmError, StmReport, StmStats, Write,
    memory::Memory,
    run::{Left, Run},
    shaker::Point,
    slot::Lowest,
};
use crate::TxIndex;
use std::sync::atomic::Ordering;

/// What is final.
pub(super) struct Ledger<P: Program> {
    total: usize,
    outputs: Vec<P::Output>,
    ended: Option<Ended<P::Error>>,
}

enum Ended<E> {
    Stopped(Commit),
    Failed(StmError<E>),
}

impl<P: Program> Ledger<P> {
    pub(super) fn new(total: u32) -> Self {
        Self { total: total as usize, outputs: Vec::with_capacity(total as usize), ended: None }
    }

    /// The lowest transaction that is not final, unless the run is over.
    const fn lowest(&self) -> Option<u32> {
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

/// Why an outcome does not stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// It read something else than what is final.
    Stale,
    /// A credit does not fit.
    Overflow,
}

impl<P: Program> Run<'_, P> {
    /// Makes final what can be. Called with the turn. A transaction that may run now is added to `ready`.
    pub(super) fn commit(&self, ready: &mut Vec<u32>, stats: &mut StmStats) {
        let mut ledger = self.ledger.lock();
        while let Some(tx) = ledger.lowest() {
            self.pause(Point::Commit, tx, 0);
            match self.slot(tx).take() {
                Lowest::Busy => break,
                Lowest::Ready => {
                    ready.push(tx);
                    break;
                }
                Lowest::Executed { incarnation, exact, left } => match self.judge(tx, incarnation, &left) {
                    Ok(()) => self.make_final(&mut ledger, tx, left),
                    Err(Refusal::Overflow) if exact => {
                        ledger.ended = Some(Ended::Failed(StmError::CreditOverflow { index: TxIndex(tx) }));
                    }
                    Err(refusal) => {
                        stats.refused += 1;
                        self.slot(tx).put_back(left, refusal == Refusal::Overflow);
                        self.mark_estimates(tx);
                        self.slot(tx).retry();
                        ready.push(tx);
                        break;
                    }
                },
            }
        }
        if ledger.lowest().is_none() {
            self.idle.end();
        } else if self.queue.advance(ledger.outputs.len() as u32) {
            self.idle.wake(usize::MAX);
        }
    }

    /// Whether the outcome of the lowest transaction stands.
    fn judge(&self, tx: u32, incarnation: u32, left: &Left<P>) -> Result<(), Refusal> {
        if !left.reads.iter().all(|id| self.memory.chain(*id).confirm(tx, incarnation)) {
            return Err(Refusal::Stale);
        }
        let fits = |v: &P::Value, c: &P::Credit| self.credited(v, c);
        let tally = self.tally.zip(left.tally.as_ref());
        if !left.writes.iter().all(|id| self.memory.chain(*id).fits(tx, fits))
            || tally.is_some_and(|(id, credit)| !self.memory.chain(id).takes(credit, fits))
        {
            return Err(Refusal::Overflow);
        }
        Ok(())
    }

    fn make_final(&self, ledger: &mut Ledger<P>, tx: u32, left: Left<P>) {
        let output = left.output.expect("an executed transaction left its output");
        let commit = self.program.commit(TxIndex(tx), &output);
        if commit != Commit::StopBefore {
            for id in &left.writes {
                self.memory.chain(*id).fold(tx, |v, c| self.credited(v, c));
            }
            if let Some((id, credit)) = self.tally.zip(left.tally) {
                self.memory.chain(id).apply(Write::Credit(credit), |v, c| self.credited(v, c));
            }
            ledger.outputs.push(output);
            // Whoever sees this sees the folds.
            self.height.store(tx + 1, Ordering::Release);
        }
        if commit != Commit::Continue {
            ledger.ended = Some(Ended::Stopped(commit));
        }
    }

    /// Ends the run with an error of its lowest transaction, unless it ended before that one.
    pub(super) fn fail(&self, error: StmError<P::Error>) {
        self.ledger.lock().ended.get_or_insert(Ended::Failed(error));
        self.idle.end();
    }
}
