//! Jobs of a replica's threads: how long each takes, and what leaves the thread at its end.

use super::{
    Order, Setting,
    station::{Disk, Kind, Thread},
};
use alloy_primitives::{B256, Bytes, U256};
use phalanx_bft::{Batch, Checked, Crypto, Domain, Index, Input, Message as _, Out, Protocol, Slot, To};
use phalanx_world::{Facts, Line};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Part of a message in the load of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carries {
    /// A batch, for the worker.
    Batch,
    /// A vote, for the worker.
    Vote,
    /// A signed statement, for the checkpoint thread.
    Checkpoint,
}

impl Carries {
    pub(super) fn of<P: Facts>(message: &P::Msg) -> Self {
        match message.batches().is_empty() {
            false => Self::Batch,
            true if P::is_checkpoint(message) => Self::Checkpoint,
            true => Self::Vote,
        }
    }
}

/// Work of a thread.
#[derive(Debug)]
pub(super) enum Job<P: Protocol> {
    /// Requests: so many, sent at this time.
    Requests(u64, u64),
    /// Make a batch of so many transactions.
    Make(u32, u64),
    Message(Index, Arc<P::Msg>),
    Timer(P::Timer),
    /// Hand a decided batch to execution.
    HandOver(Slot, u32),
    /// Execute a batch in a slot.
    Execute(Slot, u32),
}

/// Effect that leaves a thread when its job is done.
#[derive(Debug)]
pub(super) enum Leaves<P: Protocol> {
    Send(To, Arc<P::Msg>, u64),
    Execute(Slot, u32),
    /// Requests for the pool.
    Pool(u64, u64),
    /// A batch that may be proposed.
    Made(u32),
    /// A batch whose clients are answered.
    Answer(u32),
    Timer(P::Timer, u64),
}

/// Effects that leave a thread at the end of a job.
#[derive(Debug)]
pub(super) struct Ends<P: Protocol> {
    pub(super) leaves: Vec<Leaves<P>>,
    /// True if a record has to be durable before protocol's effects leave.
    pub(super) logs: bool,
}

impl<P: Protocol> Default for Ends<P> {
    fn default() -> Self {
        Self { leaves: Vec::new(), logs: false }
    }
}

/// A replica with its stations.
pub(super) struct Replica<P: Protocol> {
    pub(super) protocol: P,
    pub(super) threads: Vec<Thread<Job<P>, Ends<P>>>,
    pub(super) outputs: [Line; 2],
    pub(super) inputs: [Line; 2],
    pub(super) egress: Line,
    pub(super) ingress: Line,
    pub(super) disk: Disk,
    /// Time of each timer that runs, and time of the event that looks at it.
    pub(super) timers: BTreeMap<P::Timer, (u64, u64)>,
    /// Decided batches that wait for the slots below, and the next slot to execute.
    ordered: BTreeMap<Slot, u32>,
    next: Slot,
    /// Batches that are made and not proposed, those that are proposed and not decided here.
    pub(super) made: VecDeque<u32>,
    pub(super) in_flight: u64,
}

impl<P: Facts> Replica<P> {
    pub(super) fn new(protocol: P, setting: &Setting) -> Self {
        let kinds = [Kind::ClientInput, Kind::Worker, Kind::Execute, Kind::Checkpoint];
        let batches = (0..setting.batch_threads).map(|_| Kind::Batch);
        Self {
            protocol,
            threads: kinds.into_iter().chain(batches).map(Thread::new).collect(),
            outputs: Default::default(),
            inputs: Default::default(),
            egress: Line::default(),
            ingress: Line::default(),
            disk: Disk::default(),
            timers: BTreeMap::new(),
            ordered: BTreeMap::new(),
            next: 1,
            made: VecDeque::new(),
            in_flight: 0,
        }
    }

    /// Thread for a job of the kind: the worker, where there is none of it; the one with the least to do, where there are several.
    pub(super) fn thread(&self, kind: Kind, setting: &Setting) -> usize {
        let kind = match kind {
            Kind::Execute if setting.execute_threads == 0 => Kind::Worker,
            Kind::Batch if setting.batch_threads == 0 => Kind::Worker,
            kind => kind,
        };
        let threads = self.threads.iter().enumerate().filter(|(_, thread)| thread.kind == kind);
        // Batch threads share one queue: for equal jobs, the shortest own queue is the same.
        threads.min_by_key(|(_, thread)| thread.load()).map_or(0, |(at, _)| at)
    }

    /// Does a job at `now`, in µs. Returns its time in ns on a core of its own.
    pub(super) fn work(&mut self, setting: &Setting, now: u64, job: Job<P>, ends: &mut Ends<P>) -> u64 {
        let Setting { costs, signatures, batch: size, operations, order, .. } = *setting;
        match job {
            Job::Requests(count, sent) => {
                ends.leaves.push(Leaves::Pool(count, sent));
                // Here a thread reads a client's message of several requests, and its batch thread checks it.
                costs.message_ns * count.div_ceil(costs.bundle)
            }
            Job::Make(batch, size) if order == Order::Nothing => {
                ends.leaves.push(Leaves::Answer(batch));
                let execute = if setting.executes { costs.memory_ns * operations } else { 0 };
                size * (costs.request_ns + execute)
            }
            Job::Make(batch, size) => {
                ends.leaves.push(Leaves::Made(batch));
                let bytes = proposal_bytes(setting);
                size * operations * costs.request_ns
                    + costs.check_clients(signatures, size)
                    + costs.digest(bytes)
                    + costs.make(signatures, bytes, setting.n as u64 - 1)
            }
            Job::Message(from, message) => {
                let (check, extra) = match Carries::of::<P>(&message) {
                    Carries::Batch => {
                        (costs.check(signatures, proposal_bytes(setting)), size * operations * costs.request_ns / 2)
                    }
                    Carries::Vote => (costs.check(signatures, costs.vote_bytes), 0),
                    Carries::Checkpoint => (costs.statement(signatures).1, 0),
                };
                let mut out = Vec::new();
                if let Some(checked) = Checked::new(P::Msg::clone(&message), Domain::default(), |_| true) {
                    self.protocol.on_message(now, from, checked, &mut out);
                }
                costs.message_ns + check + extra + self.absorb(setting, now, out, ends)
            }
            Job::Timer(timer) => {
                let mut out = Vec::new();
                self.protocol.on_timer(now, timer, &mut out);
                costs.message_ns + self.absorb(setting, now, out, ends)
            }
            Job::HandOver(slot, batch) => {
                self.decide(slot, batch, ends);
                costs.message_ns
            }
            Job::Execute(slot, batch) => {
                ends.leaves.push(Leaves::Answer(batch));
                let mut out = Vec::new();
                let digest = B256::from(U256::from(slot));
                self.protocol.on_input(now, Input::Committed { slot, digest }, &mut out);
                let signed = self.absorb(setting, now, out, ends);
                let operation = if setting.sqlite { costs.sqlite_ns } else { costs.memory_ns };
                let execute = if setting.executes { operation * operations } else { 0 };
                let answer = costs.request_ns / 2 + costs.make(signatures, costs.tx_bytes, 1);
                size * (execute + answer) + signed
            }
        }
    }

    /// Proposes batches that are made, as far as the windows go. Returns those decided at once, for the worker.
    pub(super) fn propose(
        &mut self,
        setting: &Setting,
        now: u64,
        batches: &[Batch],
        ends: &mut Ends<P>,
    ) -> Vec<Job<P>> {
        let mut decided = Vec::new();
        while setting.window.is_none_or(|window| self.in_flight < window)
            && self.protocol.room() > 0
            && let Some(name) = self.made.pop_front()
        {
            let mut out = Vec::new();
            self.protocol.on_input(now, Input::Batch(batches[name as usize].clone()), &mut out);
            self.in_flight += 1;
            // Its batch thread has authenticated the proposal.
            let (at_once, rest): (Vec<_>, Vec<_>) = out.into_iter().partition(|out| matches!(out, Out::Decided { .. }));
            self.absorb(setting, now, rest, ends);
            for out in at_once {
                if let Out::Decided { slot, batch: Some(batch) } = out {
                    decided.push(Job::HandOver(slot, name_of(&batch)));
                }
            }
        }
        decided
    }

    /// Performs effects of the protocol. Returns the time that authentication takes.
    fn absorb(&mut self, setting: &Setting, now: u64, out: Vec<Out<P>>, ends: &mut Ends<P>) -> u64 {
        let Setting { costs, signatures, n, .. } = setting;
        let mut cost = 0;
        for effect in out {
            match effect {
                Out::Send(to, message) => {
                    let copies = match to {
                        To::All => *n as u64 - 1,
                        To::One(_) => 1,
                    };
                    let bytes = match Carries::of::<P>(&message) {
                        Carries::Batch => proposal_bytes(setting),
                        Carries::Vote => {
                            cost += costs.make(*signatures, costs.vote_bytes, copies);
                            costs.vote_bytes
                        }
                        Carries::Checkpoint => costs.vote_bytes,
                    };
                    ends.leaves.push(Leaves::Send(to, Arc::new(message), bytes));
                }
                Out::Work { job, crypto } => {
                    cost += costs.statement(*signatures).0;
                    let mut more = Vec::new();
                    let signature = Bytes::from_static(&[0; 64]);
                    let input = match crypto {
                        Crypto::Sign(_) | Crypto::Share { .. } => Input::Signed { job, signature },
                        Crypto::Combine { .. } => Input::Combined { job, result: Ok(signature) },
                    };
                    self.protocol.on_input(now, input, &mut more);
                    cost += self.absorb(setting, now, more, ends);
                }
                Out::Decided { slot, batch: Some(batch) } => self.decide(slot, name_of(&batch), ends),
                Out::Persist(_) => ends.logs = true,
                Out::Timer(timer, after) => ends.leaves.push(Leaves::Timer(timer, after * 1_000)),
                Out::Cancel(timer) => drop(self.timers.remove(&timer)),
                _ => {}
            }
        }
        cost
    }

    /// Executes in the order of slots.
    fn decide(&mut self, slot: Slot, batch: u32, ends: &mut Ends<P>) {
        self.ordered.insert(slot, batch);
        self.in_flight = self.in_flight.saturating_sub(1);
        while let Some(batch) = self.ordered.remove(&self.next) {
            ends.leaves.push(Leaves::Execute(self.next, batch));
            self.next += 1;
        }
    }
}

/// The batch of a number. Machines need no content: its one transaction is the number.
pub(super) fn named(number: u32) -> Batch {
    Batch::new(0, alloy_primitives::Address::ZERO, vec![Bytes::copy_from_slice(&number.to_be_bytes())])
}

fn name_of(batch: &Batch) -> u32 {
    let name = batch.transactions().first().and_then(|tx| <[u8; 4]>::try_from(&tx[..]).ok());
    u32::from_be_bytes(name.expect("this world makes all batches"))
}

fn proposal_bytes(setting: &Setting) -> u64 {
    let plain = setting.batch * setting.operations * setting.costs.tx_bytes + setting.costs.vote_bytes;
    setting.proposal_bytes.unwrap_or(plain)
}
