//! State that all workers of a run share, and the record that a transaction's executions leave.

use super::{
    apart::Apart,
    ledger::Ledger,
    memory::Memory,
    program::Program,
    queue::Queue,
    report::StmConfig,
    shaker::{Point, Shaker},
    slot::Slot,
    turn::Turn,
};
use crate::idle::Idle;
use parking_lot::Mutex;
use phalanx_access::KeyId;
use std::sync::atomic::AtomicU32;

/// State that all workers of a run share.
pub(super) struct Run<'a, P: Program> {
    pub(super) program: &'a P,
    pub(super) memory: &'a Memory<P::Key, P::Value, P::Credit>,
    /// Id of [`Program::tally`].
    pub(super) tally: Option<KeyId>,
    pub(super) slots: Vec<Slot<Record<P>>>,
    pub(super) queue: Queue,
    /// Values that transactions wait for, if the program reads apart.
    pub(super) apart: Option<Apart>,
    pub(super) idle: Idle,
    pub(super) turn: Turn,
    /// Locked only with the turn.
    pub(super) ledger: Mutex<Ledger<P>>,
    /// Number of final transactions. Their writes are folded into the chains.
    pub(super) height: AtomicU32,
    pub(super) attempts: u32,
    pub(super) shaker: Option<Shaker>,
}

/// Record that the executions of a transaction leave.
pub(super) struct Record<P: Program> {
    /// Keys that the last execution read, or found blocked.
    pub(super) reads: Vec<KeyId>,
    /// Keys whose chains hold an entry of the transaction; ascending.
    pub(super) writes: Vec<KeyId>,
    /// Credit of the last execution to the run's tally.
    pub(super) tally: Option<P::Credit>,
    /// Output of the last execution, if it published.
    pub(super) output: Option<P::Output>,
}

impl<P: Program> Default for Record<P> {
    fn default() -> Self {
        Self { reads: Vec::new(), writes: Vec::new(), tally: None, output: None }
    }
}

impl<'a, P: Program> Run<'a, P> {
    pub(super) fn new(
        program: &'a P,
        total: u32,
        memory: &'a Memory<P::Key, P::Value, P::Credit>,
        config: &StmConfig,
    ) -> Self {
        let mut idle = Idle::default();
        // The ledger ends the run, not a count.
        idle.reset(1);
        Self {
            program,
            memory,
            tally: program.tally().map(|key| memory.id(&key)),
            slots: (0..total).map(|_| Slot::default()).collect(),
            queue: Queue::new(total),
            apart: program.reads_apart().then(Apart::default),
            idle,
            turn: Turn::default(),
            ledger: Mutex::new(Ledger::new(total)),
            height: AtomicU32::new(0),
            attempts: config.attempts.max(1),
            shaker: config.schedule_seed.map(Shaker::new),
        }
    }

    #[inline]
    pub(super) fn slot(&self, tx: u32) -> &Slot<Record<P>> {
        &self.slots[tx as usize]
    }

    #[inline]
    pub(super) fn credited(&self, value: &P::Value, credit: &P::Credit) -> Option<P::Value> {
        self.program.credited(value, credit)
    }

    #[inline]
    pub(super) fn pause(&self, point: Point, tx: u32, turn: u32) {
        if let Some(shaker) = self.shaker {
            shaker.pause(point, tx, turn);
        }
    }

    pub(super) fn deviates(&self, point: Point, tx: u32) -> bool {
        self.shaker.is_some_and(|shaker| shaker.deviates(point, tx))
    }

    /// Marks the entries of `tx`, whose abort the caller owns, as estimates.
    pub(super) fn mark_estimates(&self, tx: u32) {
        self.pause(Point::Estimate, tx, 0);
        let writes = self.slot(tx).with(|record| core::mem::take(&mut record.writes));
        writes.iter().for_each(|id| self.memory.chain(*id).estimate(tx));
        self.slot(tx).with(|record| record.writes = writes);
    }
}
