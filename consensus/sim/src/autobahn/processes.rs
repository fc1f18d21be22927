//! Parts of real processes that the paper's model lacks: a log with group commit, and clients of a bounded number.

use phalanx_bft::{Out, Protocol};
use std::collections::VecDeque;

/// Effects of a replica, in order. Those behind a record leave when it is durable.
pub(super) struct Outbox<P: Protocol> {
    waiting: VecDeque<Out<P>>,
    /// Effects that stood behind the records that are being written.
    behind: Option<Vec<Out<P>>>,
}

/// Next step of a replica's effects.
pub(super) enum Next<P: Protocol> {
    /// Nothing, until more come or a write ends.
    Nothing,
    /// A write begins: of all records that are there.
    Write,
    /// An effect leaves.
    Perform(Out<P>),
}

impl<P: Protocol> Default for Outbox<P> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), behind: None }
    }
}

impl<P: Protocol> Outbox<P> {
    pub(super) fn extend(&mut self, effects: Vec<Out<P>>) {
        self.waiting.extend(effects);
    }

    pub(super) fn next(&mut self) -> Next<P> {
        if self.behind.is_some() {
            return Next::Nothing;
        }
        match self.waiting.pop_front() {
            None => Next::Nothing,
            Some(Out::Persist(_)) => {
                self.behind = Some(self.waiting.drain(..).collect());
                Next::Write
            }
            Some(effect) => Next::Perform(effect),
        }
    }

    /// A write has ended. What stood behind its records comes first; its other records were part of the write.
    pub(super) fn written(&mut self) {
        for effect in self.behind.take().unwrap_or_default().into_iter().rev() {
            if !matches!(effect, Out::Persist(_)) {
                self.waiting.push_front(effect);
            }
        }
    }
}

/// Transactions of a replica that are due and find no client free.
#[derive(Debug, Default)]
pub(super) struct Waiting(u64);

impl Waiting {
    /// Takes up to `most` transactions, `due` ones more than before among them. Returns their number, and the mean time for which
    /// they have waited, in ns, at a rate of `tps` per second of `n` replicas. The oldest go first.
    pub(super) fn take(&mut self, due: u64, most: u64, (tps, n): (u64, u64)) -> (u64, u64) {
        self.0 += due;
        let txs = self.0.min(most);
        let behind = self.0 - txs / 2;
        self.0 -= txs;
        let waited = u128::from(behind) * u128::from(n) * 1_000_000_000 / u128::from(tps);
        (txs, u64::try_from(waited).unwrap_or(u64::MAX))
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
            match outbox.next() {
                Next::Nothing => return (left, writes),
                Next::Write => writes += 1,
                Next::Perform(Out::OrderVoted { slot, .. }) => left.push(slot),
                Next::Perform(other) => panic!("not put in: {other:?}"),
            }
        }
    }

    #[test]
    fn effects_wait_for_the_records_before_them_and_records_share_a_write() {
        let mut outbox = Outbox::default();
        outbox.extend(vec![voted(1, 0), record(2), voted(2, 0), record(3), voted(3, 0)]);
        assert_eq!(flow(&mut outbox), (vec![1], 1));
        outbox.extend(vec![voted(4, 0), record(5), voted(5, 0)]);
        assert_eq!(flow(&mut outbox), (vec![], 0), "a write runs");
        outbox.written();
        assert_eq!(flow(&mut outbox), (vec![2, 3, 4], 1));
        outbox.written();
        assert_eq!(flow(&mut outbox), (vec![5], 0));
        outbox.extend(vec![Out::Cancel(Timer::Resend)]);
        assert!(matches!(outbox.next(), Next::Perform(Out::Cancel(_))));
    }

    #[test]
    fn transactions_wait_for_clients_and_count_from_when_they_were_due() {
        let mut waiting = Waiting::default();
        let rate = (4_000, 4);
        // 100 are due and none can be sent; a second later 1,000 more are, and 500 of the oldest go.
        assert_eq!(waiting.take(100, 0, rate), (0, 100_000_000));
        assert_eq!(waiting.take(1_000, 500, rate), (500, 850_000_000));
        assert_eq!(waiting.take(0, 10_000, rate), (600, 300_000_000));
    }
}
