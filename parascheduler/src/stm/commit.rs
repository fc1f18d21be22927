//! The rolling commit: makes transactions final, in order. Correctness lives here.
//!
//! A transaction becomes final only if every value it read equals the value that all lower transactions, which are final,
//! left there. By induction its outcome is that of a loop over the transactions, whatever the schedule did. The rest of
//! Block-STM only decides when that is, and after how many attempts.

use super::{
    chain::Write,
    ledger::{Ended, Ledger},
    program::{Commit, Program},
    report::{StmError, StmStats},
    run::{Record, Run},
    shaker::Point,
    slot::Lowest,
};
use crate::dag::TxIndex;
use std::sync::atomic::Ordering;

/// Reason why an outcome does not stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// A value that it read is not the final one.
    Stale,
    /// A credit does not fit.
    Overflow,
}

impl<P: Program> Run<'_, P> {
    /// Makes transactions final, as many as can be. Called with the turn. A transaction that may run now is added to `ready`.
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
                Lowest::Executed { incarnation, exact, record } => match self.judge(tx, incarnation, &record) {
                    Ok(()) => self.make_final(&mut ledger, tx, record),
                    Err(Refusal::Overflow) if exact => {
                        ledger.ended = Some(Ended::Failed(StmError::CreditOverflow { index: TxIndex(tx) }));
                    }
                    Err(refusal) => {
                        stats.refused += 1;
                        self.slot(tx).put_back(record, refusal == Refusal::Overflow);
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

    /// Checks the outcome of the lowest transaction against the final values.
    fn judge(&self, tx: u32, incarnation: u32, record: &Record<P>) -> Result<(), Refusal> {
        if !record.reads.iter().all(|id| self.memory.chain(*id).confirm(tx, incarnation)) {
            return Err(Refusal::Stale);
        }
        let fits = |v: &P::Value, c: &P::Credit| self.credited(v, c);
        let tally = self.tally.zip(record.tally.as_ref());
        if !record.writes.iter().all(|id| self.memory.chain(*id).fits(tx, fits))
            || tally.is_some_and(|(id, credit)| !self.memory.chain(id).takes(credit, fits))
        {
            return Err(Refusal::Overflow);
        }
        Ok(())
    }

    fn make_final(&self, ledger: &mut Ledger<P>, tx: u32, record: Record<P>) {
        let output = record.output.expect("an executed transaction left its output");
        let commit = self.program.commit(TxIndex(tx), &output);
        if commit != Commit::StopBefore {
            for id in &record.writes {
                self.memory.chain(*id).fold(tx, |v, c| self.credited(v, c));
            }
            if let Some((id, credit)) = self.tally.zip(record.tally) {
                self.memory.chain(id).apply(Write::Credit(credit), |v, c| self.credited(v, c));
            }
            ledger.outputs.push(output);
            // A thread that sees this height sees the folds.
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
