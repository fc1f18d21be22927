//! A worker of a run: takes a transaction, executes it, publishes its writes and invalidates stale readers.
//!
//! Correctness does not live here but in `commit.rs`, which compares every read with the final value. This file makes that
//! comparison succeed soon: a reader is executed again only if a value that it read has changed.

use super::{
    apart::{MAX_PARKS, Wanted},
    chain::{Displaced, Write},
    program::{Execution, Halt, Interrupt, Load, Program, Speculation, View},
    reader::Start,
    report::{StmError, StmStats},
    run::Run,
    shaker::Point,
    slot::Begun,
    waiters::{Line, Waiters},
};
use crate::{dag::TxIndex, idle::EndOnPanic};
use phalanx_access::KeyId;
use std::{cmp::Reverse, sync::atomic::Ordering};

/// State that one worker of a run owns.
pub(super) struct Worker<'a, P: Program> {
    run: &'a Run<'a, P>,
    /// Starts the thread that reads.
    start: &'a Start<'a>,
    local: &'a mut P::Local,
    /// Transactions that this worker's last step made ready.
    ready: Vec<u32>,
    displaced: Vec<Displaced>,
    /// Keys that the last execution wrote: in its order, then ascending.
    ids: Vec<KeyId>,
    /// Keys to be read apart beside the one that the last execution waits for.
    others: Vec<KeyId>,
    /// True if the tally's value before the run is known to be loaded.
    is_tally_loaded: bool,
    stats: StmStats,
}

/// Searches for work before sleeping, each pause twice as long as the one before: about 3 µs, as long as a wakeup takes.
const SPINS: u32 = 7;

impl<'a, P: Program> Worker<'a, P> {
    pub(super) fn new(run: &'a Run<'a, P>, start: &'a Start<'a>, local: &'a mut P::Local) -> Self {
        let (ready, displaced, ids, others) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { run, start, local, ready, displaced, ids, others, is_tally_loaded: false, stats: StmStats::default() }
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

    /// Takes the lowest re-execution, or else the next first execution. [`None`] when the run is over.
    fn next(&self) -> Option<u32> {
        let Run { queue, idle, .. } = self.run;
        let look = || {
            // The unusual branch: run ahead although a re-execution waits.
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

    /// Keeps the lowest transaction that became ready, since others most likely wait for it, and queues the rest.
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

    /// Executes `tx`, which is ready and ours, unless it would only meet an estimate.
    fn attempt(&mut self, tx: u32) {
        let run = self.run;
        let slot = run.slot(tx);
        let mut reads = slot.with(|record| core::mem::take(&mut record.reads));
        let blocker = reads.iter().find_map(|id| run.memory.chain(*id).blocker(tx).map(|on| (on, *id)));
        if let Some((on, key)) = blocker {
            slot.with(|record| record.reads = reads);
            return self.wait(tx, on, key);
        }
        // The lowest transaction sees only final values.
        let lowest = run.height.load(Ordering::Acquire) == tx;
        let begun = slot.begin();
        self.stats.executions += 1;
        self.stats.max_incarnation = self.stats.max_incarnation.max(begun.incarnation);
        run.pause(Point::Begin, tx, begun.incarnation);
        reads.clear();
        let (incarnation, shaker) = (begun.incarnation, run.shaker);
        let barred = run.tally.filter(|_| !lowest);
        let is_first = begun.attempt() == 1;
        let speculation =
            Speculation { incarnation, is_first, barred, reads, stale: slot.stale(), idle: &run.idle, shaker };
        let speculation = Some(speculation);
        let load = match &run.apart {
            None => Load::Now,
            Some(apart) if apart.is_open() && begun.parks < MAX_PARKS => Load::Park,
            Some(_) => Load::Wait,
        };
        let Run { program, memory, .. } = *run;
        let mut view = View { program, memory, tx, exact: begun.exact, load, waits: 0, speculation, halt: None };
        let result = program.execute(self.local, TxIndex(tx), &mut view);
        let View { speculation, waits, halt, .. } = view;
        self.stats.waits += u64::from(waits);
        let reads = speculation.map(|speculation| speculation.reads).unwrap_or_default();
        let halt = match (result, halt) {
            (Ok(execution), None) => match self.intern(&execution, load) {
                Ok(None) => return self.publish(tx, begun, reads, execution),
                Ok(Some(key)) => Halt::Parked { key },
                Err(error) => Halt::Base(error),
            },
            (_, Some(halt)) => halt,
            (Err(Interrupt(())), None) => panic!("transaction {tx} returned an interrupt that its view did not give"),
        };
        slot.give_up(|record| record.reads = reads);
        self.halted(tx, begun, lowest, halt);
    }

    /// Continues after an execution that gave up. Its older entries, if any, are estimates already.
    fn halted(&mut self, tx: u32, begun: Begun, lowest: bool, halt: Halt<P::Error>) {
        match halt {
            Halt::Blocked { on, key } => {
                self.stats.blocked += 1;
                if begun.attempt() < self.run.attempts {
                    self.wait(tx, on, key);
                } else {
                    self.release(tx, 0);
                }
            }
            Halt::Parked { key } => self.park(tx, begun, key),
            Halt::Stale => {
                self.stats.invalidated += 1;
                self.release(tx, self.run.attempts);
            }
            Halt::Base(source) if lowest => self.run.fail(StmError::Base { index: TxIndex(tx), source }),
            // At its place in the order it may not meet this, and before that there is no better answer.
            Halt::Base(_) | Halt::Overflow | Halt::Early => self.release(tx, 0),
        }
    }

    /// Makes `tx`, which is ours, wait for `on`, unless that has published meanwhile.
    fn wait(&mut self, tx: u32, on: u32, key: KeyId) {
        self.run.slot(tx).block();
        self.run.pause(Point::Block, tx, on);
        if !self.run.slot(on).list(key.0, tx) {
            self.run.slot(tx).resume(key.0, Line::new());
            self.ready.push(tx);
        }
    }

    /// Makes `tx`, which is ours, wait for a value that is read apart, with others that it will need.
    fn park(&mut self, tx: u32, begun: Begun, key: KeyId) {
        let run = self.run;
        self.stats.parked += 1;
        let apart = run.apart.as_ref().expect("only a program that reads apart parks");
        if begun.parks == 0 {
            run.program.named(TxIndex(tx), &mut |key| self.others.push(run.memory.id(key)));
        }
        run.slot(tx).park();
        run.pause(Point::Park, tx, begun.incarnation);
        let others = self.others.drain(..).map(|id| Wanted { key: id.0, tx: None });
        if !apart.want(others.chain([Wanted { key: key.0, tx: Some(tx) }]), self.start) {
            run.slot(tx).resume(key.0, Line::new());
            self.ready.push(tx);
        }
    }

    /// Interns the written keys, and loads the values that credits need. It can fail, so nothing is published before. Returns a
    /// key whose value is to be read apart, if there is one.
    fn intern(&mut self, execution: &Execution<P>, load: Load) -> Result<Option<KeyId>, P::Error> {
        let Run { program, memory, tally, .. } = *self.run;
        self.ids.clear();
        self.others.clear();
        let (mut parked, mut waits) = (None, 0);
        for (key, write) in &execution.writes {
            let id = memory.id(key);
            let is_tally = Some(id) == tally;
            if matches!(write, Write::Credit(_)) && !(is_tally && self.is_tally_loaded) {
                if load.load(program, memory, key, id, &mut waits)? {
                    self.is_tally_loaded |= is_tally;
                } else {
                    self.others.extend(parked.replace(id));
                }
            }
            self.ids.push(id);
        }
        self.stats.waits += u64::from(waits);
        Ok(parked)
    }

    /// Publishes the writes of `tx`. A stale execution publishes too: its writes tell others what to expect.
    fn publish(&mut self, tx: u32, begun: Begun, reads: Vec<KeyId>, execution: Execution<P>) {
        let run = self.run;
        let Execution { output, writes } = execution;
        let before = run.slot(tx).with(|record| core::mem::take(&mut record.writes));
        // If a key comes twice, the last write counts.
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
        let executed = run.slot(tx).finish(|record| {
            record.reads = reads;
            record.writes.extend_from_slice(&self.ids);
            record.tally = tally;
            record.output = Some(output);
        });
        match executed {
            Some(waiters) => {
                self.resume(waiters);
                run.turn.ask(|| run.commit(&mut self.ready, &mut self.stats));
            }
            None => self.abort(tx),
        }
    }

    /// Invalidates all readers that the last publication has displaced.
    fn invalidate(&mut self, tx: u32) {
        while let Some((reader, incarnation)) = self.displaced.pop() {
            self.run.pause(Point::Invalidate, tx, reader);
            if self.run.slot(reader).invalidate(incarnation) {
                self.abort(reader);
            }
        }
    }

    /// Aborts `tx`, whose abort is ours: its entries become estimates.
    fn abort(&mut self, tx: u32) {
        self.stats.invalidated += 1;
        self.run.mark_estimates(tx);
        self.release(tx, self.run.attempts);
    }

    /// Ends the abort of `tx`: it runs again, or waits to be the lowest if it has had so many attempts.
    fn release(&mut self, tx: u32, attempts: u32) {
        let run = self.run;
        if run.slot(tx).release(attempts) {
            self.ready.push(tx);
        } else {
            run.turn.ask(|| run.commit(&mut self.ready, &mut self.stats));
        }
    }

    /// Resumes the transactions that waited for the writer of `self.ids`.
    ///
    /// If it did write the key that they waited for, the first of them probably writes it too, and the others wait for that
    /// one. If the first does not write it, it resumes all others. So a chain of writers runs once, and one execution delays
    /// a crowd of readers.
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
