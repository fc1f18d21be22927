//! A protocol that notes, for each message, how many records have to be durable before it leaves.

use phalanx_bft::{Base, Checked, ConfigError, Index, Input, Micros, Out, Outs, Protocol, Reach, View};
use phalanx_world::Facts;
use std::{cell::RefCell, collections::VecDeque, sync::Arc};

/// The protocol, and what its host owes it.
pub(crate) struct Watched<P: Protocol> {
    inner: P,
    owed: RefCell<Owed<P::Msg>>,
}

struct Owed<M> {
    /// Records since the start.
    records: u64,
    /// Each message that has not left yet, and the records before it.
    before: VecDeque<(M, u64)>,
}

impl<M> Default for Owed<M> {
    fn default() -> Self {
        Self { records: 0, before: VecDeque::new() }
    }
}

impl<P: Facts> Watched<P> {
    /// The protocol itself.
    pub(crate) const fn inner(&self) -> &P {
        &self.inner
    }

    /// Number of records that came before a message that leaves. Those of a silent replica before it do not leave.
    pub(crate) fn next_to_leave(&self, message: &P::Msg) -> u64 {
        let mut owed = self.owed.borrow_mut();
        loop {
            let (sent, before) = owed.before.pop_front().expect("the protocol has sent what leaves");
            if sent == *message {
                return before;
            }
        }
    }

    fn pass(&self, outs: Outs<P>, out: &mut Outs<Self>) {
        let mut owed = self.owed.borrow_mut();
        out.extend(outs.into_iter().map(|effect| match effect {
            Out::Persist(record) => {
                owed.records += 1;
                Out::Persist(record)
            }
            Out::Send(to, message) => {
                let before = owed.records;
                owed.before.push_back((message.clone(), before));
                Out::Send(to, message)
            }
            Out::Timer(timer, after) => Out::Timer(timer, after),
            Out::Cancel(timer) => Out::Cancel(timer),
            Out::Work { job, crypto } => Out::Work { job, crypto },
            Out::Proposed { slot, view, batch } => Out::Proposed { slot, view, batch },
            Out::OrderVoted { slot, view } => Out::OrderVoted { slot, view },
            Out::Decided { slot, batch } => Out::Decided { slot, batch },
            Out::Certificate { slot, digest, signature, answers } => {
                Out::Certificate { slot, digest, signature, answers }
            }
            Out::Conflict { slot } => Out::Conflict { slot },
            Out::Stable { base, proof } => Out::Stable { base, proof },
            Out::Want(want) => Out::Want(want),
            Out::Returned(batch) => Out::Returned(batch),
            Out::Evidence { against, proof } => Out::Evidence { against, proof },
        }));
    }

    fn with(&mut self, out: &mut Outs<Self>, act: impl FnOnce(&mut P, &mut Outs<P>)) {
        let mut outs = Vec::new();
        act(&mut self.inner, &mut outs);
        self.pass(outs, out);
    }
}

impl<P: Facts> Protocol for Watched<P> {
    type Config = P::Config;
    type Msg = P::Msg;
    type Record = P::Record;
    type Timer = P::Timer;

    const OWN_REQUESTS: bool = P::OWN_REQUESTS;

    fn check(config: &Self::Config) -> Result<(), ConfigError> {
        P::check(config)
    }

    fn batch_bytes(config: &Self::Config) -> usize {
        P::batch_bytes(config)
    }

    fn open(me: Index, config: Arc<Self::Config>, base: Base, log: &[Self::Record], out: &mut Outs<Self>) -> Self {
        let mut outs = Vec::new();
        let watched = Self { inner: P::open(me, config, base, log, &mut outs), owed: RefCell::default() };
        watched.pass(outs, out);
        watched
    }

    fn wants(&self, from: Index, message: &Self::Msg) -> bool {
        self.inner.wants(from, message)
    }

    fn on_message(&mut self, now: Micros, from: Index, message: Checked<Self::Msg>, out: &mut Outs<Self>) {
        self.with(out, |inner, out| inner.on_message(now, from, message, out));
    }

    fn on_timer(&mut self, now: Micros, timer: Self::Timer, out: &mut Outs<Self>) {
        self.with(out, |inner, out| inner.on_timer(now, timer, out));
    }

    fn on_input(&mut self, now: Micros, input: Input, out: &mut Outs<Self>) {
        self.with(out, |inner, out| inner.on_input(now, input, out));
    }

    fn room(&self) -> u64 {
        self.inner.room()
    }

    fn leader(&self) -> Index {
        self.inner.leader()
    }

    fn view(&self) -> View {
        self.inner.view()
    }

    fn journal(&self) -> Vec<Self::Record> {
        self.inner.journal()
    }

    fn reach(&self) -> Option<Reach> {
        self.inner.reach()
    }

    fn remind(&mut self, now: Micros, to: Index, out: &mut Outs<Self>) {
        self.with(out, |inner, out| inner.remind(now, to, out));
    }

    fn speak(&mut self, view: View, out: &mut Outs<Self>) {
        self.with(out, |inner, out| inner.speak(view, out));
    }
}
