//! Input of a timed run: settings, transactions, and the gate before its timer.

use crate::config::{Pace, RunConfig, word};
use phalanx::{
    Executor,
    revm::{context::TxEnv, primitives::Bytes},
};
use phalanx_workloads::Workload;
use std::sync::{
    Barrier,
    atomic::{AtomicBool, Ordering},
};

/// Input of a run, which repetitions share.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "a workload is none")]
pub struct Setup<'a> {
    /// Settings.
    pub config: &'a RunConfig,
    /// Genesis, block environments and checks.
    pub workload: &'a dyn Workload,
    /// Transactions of the load.
    pub txs: &'a [TxEnv],
    /// Signed bytes, if senders are recovered inside the timer.
    pub signed: &'a [Bytes],
    /// Worker threads.
    pub threads: usize,
    /// Gate that the run waits at before the timer starts.
    pub gate: Option<&'a Gate<'a>>,
    /// Reason for the run, for the user.
    pub purpose: Purpose,
}

impl Setup<'_> {
    /// Pace of the run. Only figures are measured at one.
    pub(super) fn pace(&self) -> Pace {
        if self.purpose == Purpose::Measure { self.config.pace.clone() } else { Pace::default() }
    }
}

/// Reason for a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// For the figures.
    #[default]
    Measure,
    /// For the order and the blocks alone.
    Plan,
    /// For the comparison, as the oracle.
    Compare,
}

impl Purpose {
    /// Name of the run on `threads` threads.
    pub(super) fn name(self, executor: Executor, threads: usize) -> String {
        let on = if threads == 1 { " on 1 thread".to_owned() } else { format!(" on {threads} threads") };
        match (self, executor) {
            (Self::Plan, _) => format!("planning the blocks{on}"),
            (Self::Compare, _) => "comparing with sequential revm".to_owned(),
            (Self::Measure, Executor::Sequential) => "sequential revm".to_owned(),
            (Self::Measure, parallel) => format!("{}{on}", word(parallel)),
        }
    }
}

/// Lets runs begin at the same time. A gate that is dropped without passing releases the other runs.
#[derive(Debug)]
pub struct Gate<'a> {
    others: &'a Barrier,
    passed: AtomicBool,
}

impl<'a> Gate<'a> {
    /// Gate of one participant of the barrier.
    pub(crate) const fn new(others: &'a Barrier) -> Self {
        Self { others, passed: AtomicBool::new(false) }
    }

    pub(super) fn pass(&self) {
        if !self.passed.swap(true, Ordering::Relaxed) {
            self.others.wait();
        }
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.pass();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_gate_releases_the_other_runs() {
        let others = Barrier::new(2);
        let [first, second] = [(); 2].map(|()| Gate::new(&others));
        std::thread::scope(|scope| {
            let passes = scope.spawn(move || {
                // After it has passed, it does not wait again, even when dropped.
                first.pass();
                first.pass();
            });
            drop(second);
            passes.join().expect("it passes");
        });
    }
}
