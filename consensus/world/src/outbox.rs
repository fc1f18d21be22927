//! Effects of a replica in order: those behind a record leave when it is durable.

use phalanx_bft::{Out, Outs, Protocol};
use std::collections::VecDeque;

/// Records that share a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// A record per write.
    Single,
    /// All records that wait when the write begins.
    Group,
}

/// Effects that wait for their turn, and the records that are being written.
#[derive(Debug)]
pub struct Outbox<P: Protocol> {
    waiting: VecDeque<Out<P>>,
    writing: Vec<P::Record>,
    commit: Commit,
}

/// Next step of a replica's effects.
#[derive(Debug)]
pub enum Next<P: Protocol> {
    /// Nothing, until more come or a write ends.
    Nothing,
    /// A write begins.
    Write,
    /// An effect leaves.
    Perform(Out<P>),
}

impl<P: Protocol> Outbox<P> {
    /// An empty one.
    #[must_use]
    pub const fn new(commit: Commit) -> Self {
        Self { waiting: VecDeque::new(), writing: Vec::new(), commit }
    }

    /// Returns true if no effect waits. A write may run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Queues effects behind earlier ones.
    pub fn extend(&mut self, effects: Outs<P>) {
        self.waiting.extend(effects);
    }

    /// The next step.
    pub fn step(&mut self) -> Next<P> {
        if !self.writing.is_empty() {
            return Next::Nothing;
        }
        match self.waiting.pop_front() {
            None => Next::Nothing,
            Some(Out::Persist(record)) => {
                self.writing.push(record);
                if self.commit == Commit::Group {
                    let more = self.unwritten();
                    self.writing.extend(more);
                }
                Next::Write
            }
            Some(effect) => Next::Perform(effect),
        }
    }

    /// Ends a write. Returns its records; effects behind them can leave.
    pub fn written(&mut self) -> Vec<P::Record> {
        core::mem::take(&mut self.writing)
    }

    /// Takes out the records whose write has not begun: a compacted log includes them.
    pub fn unwritten(&mut self) -> Vec<P::Record> {
        let mut records = Vec::new();
        for effect in core::mem::take(&mut self.waiting) {
            match effect {
                Out::Persist(record) => records.push(record),
                other => self.waiting.push_back(other),
            }
        }
        records
    }

    /// Drops everything: the power is cut.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.writing.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_bft::{
        Slot, View,
        pbft::{Pbft, Record, Timer, Vote},
    };

    fn record(slot: Slot) -> Out<Pbft> {
        Out::Persist(Record::Prepared(Vote { view: 0, slot, digest: Default::default() }))
    }

    fn voted(slot: Slot, view: View) -> Out<Pbft> {
        Out::OrderVoted { slot, view }
    }

    /// Slots of the effects that leave until nothing does, and the number of writes that begin.
    fn flow(outbox: &mut Outbox<Pbft>) -> (Vec<Slot>, usize) {
        let (mut left, mut writes) = (Vec::new(), 0);
        loop {
            match outbox.step() {
                Next::Nothing => return (left, writes),
                Next::Write => writes += 1,
                Next::Perform(Out::OrderVoted { slot, .. }) => left.push(slot),
                Next::Perform(other) => panic!("not put in: {other:?}"),
            }
        }
    }

    #[test]
    fn effects_wait_for_the_records_before_them_and_records_share_a_write() {
        let mut outbox = Outbox::new(Commit::Group);
        outbox.extend(vec![voted(1, 0), record(2), voted(2, 0), record(3), voted(3, 0)]);
        assert_eq!(flow(&mut outbox), (vec![1], 1));
        outbox.extend(vec![voted(4, 0), record(5), voted(5, 0)]);
        assert_eq!(flow(&mut outbox), (vec![], 0), "a write runs");
        assert_eq!(outbox.written().len(), 2);
        assert_eq!(flow(&mut outbox), (vec![2, 3, 4], 1));
        assert_eq!(outbox.written().len(), 1);
        assert_eq!(flow(&mut outbox), (vec![5], 0));
        outbox.extend(vec![Out::Cancel(Timer::Resend)]);
        assert!(matches!(outbox.step(), Next::Perform(Out::Cancel(_))));
    }

    #[test]
    fn single_records_are_written_one_after_the_other() {
        let mut outbox = Outbox::new(Commit::Single);
        outbox.extend(vec![record(1), record(2), voted(2, 0), record(3)]);
        assert_eq!(flow(&mut outbox), (vec![], 1));
        assert_eq!((outbox.written().len(), flow(&mut outbox)), (1, (vec![], 1)));
        assert_eq!(outbox.unwritten().len(), 1, "the third record goes with the compacted log");
        assert_eq!((outbox.written().len(), flow(&mut outbox)), (1, (vec![2], 0)));
    }
}
