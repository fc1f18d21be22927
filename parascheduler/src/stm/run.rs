//! One worker of a run: takes a transaction, executes it, publishes what it wrote and tells whom that concerns.
//!
//! Correctness does not live here but in `commit.rs`, which compares every read with what is final. What happens here
//! only makes that comparison succeed soon: nobody's reads are compared twice without having changed.

use super::{
    Execution, Interrupt, Program, StmConfig, StmError, StmStats, View, Write,
    chain::Displaced,
    commit::Ledger,
    memory::Memory,
    queue::Queue,
    shaker::{Point, Shaker},
    slot::{Begun, Slot},
    turn::Turn,
    view::{Halt, Speculation},
    waiters::{Line, Waiters},
};
use crate::{
    TxIndex,
    idle::{EndOnPanic, Idle},
};
use parking_lot::Mutex;
use phalanx_access::KeyId;
use std::{
    cmp::Reverse,
    sync::atomic::{AtomicU32, Ordering},
};

/// What all workers of a run share.
pub(super) struct Run<'a, P: Program> {
    pub(super) program: &'a P,
    pub(super) memory: &'a Memory<P::Key, P::Value, P::Credit>,
    /// Where [`Program::tally`] is.
    pub(super) tally: Option<KeyId>,
    pub(super) slots: Vec<Slot<Left<P>>>,
    pub(super) queue: Queue,
    pub(super) idle: Idle,
    pub(super) turn: Turn,
    /// Locked by whoever has the turn.
    pub(super) ledger: Mutex<Ledger<P>>,
    /// Number of final transactions; everything below is folded.
    pub(super) height: AtomicU32,
    pub(super) attempts: u32,
    pub(super) shaker: Option<Shaker>,
}

/// What the executions of a transaction leave.
pub(super) struct Left<P: Program> {
    /// What the last one read, or wanted to.
    pub(super) reads: Vec<KeyId>,
    /// Where the memory has entries of the transaction; ascending.
    pub(super) writes: Vec<KeyId>,
    /// What the last one credits to the run's tally.
    pub(super) tally: Option<P::Credit>,
    /// Of the last one, if it published.
    pub(super) output: Option<P::Output>,
}

impl<P: Program> Default for Left<P> {
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
        // Ends by its ledger, not by a count.
        idle.reset(1);
        Self {
            program,
            memory,
            tally: program.tally().map(|key| memory.id(&key)),
            slots: (0..total).map(|_| Slot::default()).collect(),
            queue: Queue::new(total),
            idle,
            turn: Turn::default(),
            ledger: Mutex::new(Ledger::new(total)),
            height: AtomicU32::new(0),
            attempts: config.attempts.max(1),
            shaker: config.schedule_seed.map(Shaker::new),
        }
    }

    #[inline]
    pub(super) fn slot(&self, tx: u32) -> &Slot<Left<P>> {
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

    fn deviates(&self, point: Point, tx: u32) -> bool {
        self.shaker.is_some_and(|shaker| shaker.deviates(point, tx))
    }

    /// Marks what `tx`, whose abort the caller owns, has published.
    pub(super) fn mark_estimates(&self, tx: u32) {
        self.pause(Point::Estimate, tx, 0);
        let writes = self.slot(tx).with(|left| core::mem::take(&mut left.writes));
        writes.iter().for_each(|id| self.memory.chain(*id).estimate(tx));
        self.slot(tx).with(|left| left.writes = writes);
    }
}

/// What one worker of a run owns.
pub(super) struct Worker<'a, P: Program> {
    run: &'a Run<'a, P>,
    local: &'a mut P::Local,
    /// Transactions that became ready by what this worker did last.
    ready: Vec<u32>,
    displaced: Vec<Displaced>,
    /// Keys that the last execution wrote: as they came, then ascending.
    ids: Vec<KeyId>,
    /// Whether the tally's value from before the run is there for certain.
    is_tally_loaded: bool,
    stats: StmStats,
}

/// Looks for work this often, waiting twice as long each time, before sleeping: about 3 µs, the price of a wakeup.
const SPINS: u32 = 7;

impl<'a, P: Program> Worker<'a, P> {
    pub(super) fn new(run: &'a Run<'a, P>, local: &'a mut P::Local) -> Self {
        let (ready, displaced, ids) = (Vec::new(), Vec::new(), Vec::new());
        Self { run, local, ready, displaced, ids, is_tally_loaded: false, stats: StmStats::default() }
    }

    /// Works until the run is over.
    pub(super) fn run(mut self) -> StmStats {
        let _guard = EndOnPanic(&self.run.idle);
        let mut kept = None;
        while !self.run.idle.is_over() {
            let Some(tx) = kept.take().or_else(|| self.next()) else { break };
            self.attempt(tx);
            kept = self.keep_lowest();
        }
        self.stats
    }

    /// The lowest transaction to run again, or the next that was never run. Nothing when the run is over.
    fn next(&self) -> Option<u32> {
        let Run { queue, idle, .. } = self.run;
        let look = || {
            // The unusual thing: run ahead although something was found wrong.
            let ahead = self.run.deviates(Point::Begin, self.stats.executions as u32);
            if ahead { queue.take_fresh().or_else(|| queue.take_again()) } else { queue.take() }
        };
        for spin in 0..SPINS {
            if let Some(tx) = look() {
                return Some(tx);
            }
            if idle.is_over() {
                return None;
            }
            (0..1 << spin).for_each(|_| core::hint::spin_loop());
        }
        idle.wait_for(look)
    }

    /// Of what became ready this worker goes on with the lowest, which others wait for most likely.
    fn keep_lowest(&mut self) -> Option<u32> {
        let run = self.run;
        let at = (0..self.ready.len()).min_by_key(|at| self.ready[*at])?;
        let lowest = self.ready.swap_remove(at);
        let gives = run.deviates(Point::Keep, lowest);
        if gives {
            self.ready.push(lowest);
        }
        let pushed = self.ready.len();
        if pushed != 0 {
            run.queue.push(self.ready.drain(..));
            run.idle.wake(pushed);
        }
        (!gives).then_some(lowest)
    }

    /// Runs `tx`, which is ready and ours, unless it would only meet an estimate.
    fn attempt(&mut self, tx: u32) {
        let run = self.run;
        let slot = run.slot(tx);
        let mut reads = slot.with(|left| core::mem::take(&mut left.reads));
        let blocker = reads.iter().find_map(|id| run.memory.chain(*id).blocker(tx).map(|on| (on, *id)));
        if let Some((on, key)) = blocker {
            slot.with(|left| left.reads = reads);
            return self.wait(tx, on, key);
        }
        // Then all that it will see is final.
        let lowest = run.height.load(Ordering::Acquire) == tx;
        let begun = slot.begin();
        self.stats.executions += 1;
        self.stats.max_incarnation = self.stats.max_incarnation.max(begun.incarnation);
        run.pause(Point::Begin, tx, begun.incarnation);
        reads.clear();
        let (incarnation, shaker) = (begun.incarnation, run.shaker);
        let barred = run.tally.filter(|_| !lowest);
        let speculation = Speculation { incarnation, barred, reads, stale: slot.stale(), idle: &run.idle, shaker };
        let Run { program, memory, .. } = *run;
        let mut view = View { program, memory, tx, exact: begun.exact, speculation: Some(speculation), halt: None };
        let result = program.execute(self.local, TxIndex(tx), &mut view);
        let View { speculation, halt, .. } = view;
        let reads = speculation.map(|speculation| speculation.reads).unwrap_or_default();
        let halt = match (result, halt) {
            (Ok(execution), None) => match self.intern(&execution) {
                Ok(()) => return self.publish(tx, begun, reads, execution),
                Err(error) => Halt::Base(error),
            },
            (_, Some(halt)) => halt,
            (Err(Interrupt(())), None) => panic!("transaction {tx} returned an interrupt that its view did not give"),
        };
        slot.give_up(|left| left.reads = reads);
        self.halted(tx, begun, lowest, halt);
    }

    /// What follows an execution that gave up. Its older entries, if any, are estimates already.
    fn halted(&mut self, tx: u32, begun: Begun, lowest: bool, halt: Halt<P::Error>) {
        match halt {
            Halt::Blocked { on, key } => {
                self.stats.blocked += 1;
                if begun.incarnation < self.run.attempts {
                    self.wait(tx, on, key);
                } else {
                    self.release(tx, 0);
                }
            }
            Halt::Stale => {
                self.stats.invalidated += 1;
                self.release(tx, self.run.attempts);
            }
            Halt::Base(source) if lowest => self.run.fail(StmError::Base { index: TxIndex(tx), source }),
            // What it met may not be there when its turn comes; before that there is no better answer.
            Halt::Base(_) | Halt::Overflow | Halt::Early => self.release(tx, 0),
        }
    }

    /// Lets `tx`, which is ours, wait for `on`, unless that has published meanwhile.
    fn wait(&mut self, tx: u32, on: u32, key: KeyId) {
        self.run.slot(tx).block();
        self.run.pause(Point::Block, tx, on);
        if !self.run.slot(on).list(key.0, tx) {
            self.run.slot(tx).resume(key.0, Line::new());
            self.ready.push(tx);
        }
    }

    /// Finds the places of what was written, and what credits need. Before anything is published, because it can fail.
    fn intern(&mut self, execution: &Execution<P>) -> Result<(), P::Error> {
        let Run { program, memory, tally, .. } = *self.run;
        self.ids.clear();
        for (key, write) in &execution.writes {
            let id = memory.id(key);
            let is_tally = Some(id) == tally;
            if matches!(write, Write::Credit(_)) && !(is_tally && self.is_tally_loaded) {
                memory.load(id, || program.base(key))?;
                self.is_tally_loaded |= is_tally;
            }
            self.ids.push(id);
        }
        Ok(())
    }

    /// Shows everybody what `tx` wrote. A stale execution publishes too: what it writes tells others what to expect.
    fn publish(&mut self, tx: u32, begun: Begun, reads: Vec<KeyId>, execution: Execution<P>) {
        let run = self.run;
        let Execution { output, writes } = execution;
        let before = run.slot(tx).with(|left| core::mem::take(&mut left.writes));
        // If a key comes twice, the last one counts.
        let last = run.tally.and_then(|tally| self.ids.iter().rposition(|id| *id == tally));
        let mut tally = None;
        for (at, ((_, write), id)) in writes.into_iter().zip(&self.ids).enumerate() {
            run.pause(Point::Publish, tx, begun.incarnation);
            match write {
                _ if Some(*id) == run.tally && Some(at) != last => {}
                Write::Credit(credit) if Some(*id) == run.tally => tally = Some(credit),
                write => run.memory.chain(*id).put(tx, write, |v, c| run.credited(v, c), &mut self.displaced),
            }
        }
        if tally.is_some() {
            self.ids.retain(|id| Some(*id) != run.tally);
        }
        self.ids.sort_unstable();
        self.ids.dedup();
        for id in before.iter().filter(|id| self.ids.binary_search(id).is_err()) {
            run.memory.chain(*id).remove(tx, |v, c| run.credited(v, c), &mut self.displaced);
        }
        self.invalidate(tx);
        run.pause(Point::Finish, tx, begun.incarnation);
        let executed = run.slot(tx).finish(|left| {
            left.reads = reads;
            left.writes.extend_from_slice(&self.ids);
            left.tally = tally;
            left.output = Some(output);
        });
        match executed {
            Some(waiters) => {
                self.resume(waiters);
                run.turn.ask(|| run.commit(&mut self.ready, &mut self.stats));
            }
            None => self.abort(tx),
        }
    }

    /// Tells all whom the last publication has displaced.
    fn invalidate(&mut self, tx: u32) {
        while let Some((reader, incarnation)) = self.displaced.pop() {
            self.run.pause(Point::Invalidate, tx, reader);
            if self.run.slot(reader).invalidate(incarnation) {
                self.abort(reader);
            }
        }
    }

    /// Takes back what `tx` published; its abort is ours.
    fn abort(&mut self, tx: u32) {
        self.stats.invalidated += 1;
        self.run.mark_estimates(tx);
        self.release(tx, self.run.attempts);
    }

    /// Ends the abort of `tx`: it runs again, or waits to be lowest when it has had this many attempts.
    fn release(&mut self, tx: u32, attempts: u32) {
        let run = self.run;
        if run.slot(tx).release(attempts) {
            self.ready.push(tx);
        } else {
            run.turn.ask(|| run.commit(&mut self.ready, &mut self.stats));
        }
    }

    /// Lets those go on who waited for the transaction that wrote `self.ids`.
    ///
    /// If it did write the key they waited for, the first of them probably writes it too, and the others had better wait
    /// for that one; if the first does not, it lets all the others go. So a chain of writers is run once, and a crowd of
    /// readers is held up by one execution.
    fn resume(&mut self, waiters: Waiters) {
        for (key, mut line) in waiters.into_lines() {
            if self.ids.binary_search(&KeyId(key)).is_ok() {
                if let Some(Reverse(first)) = line.pop() {
                    self.run.slot(first).resume(key, line);
                    self.ready.push(first);
                }
            } else {
                for Reverse(tx) in line {
                    self.run.slot(tx).resume(key, Line::new());
                    self.ready.push(tx);
                }
            }
        }
    }
}
