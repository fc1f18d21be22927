//! Answers: cars, cuts and decisions that another replica lacks, and those that come.
//!
//! Cars come newest first and are checked by digest from the tip down.

use super::{
    message::{Commit, CutOf, MOST_CARS, Msg, Sync, WantCut},
    record::Record,
    replica::Autobahn,
};
use crate::{
    core::{Index, Micros, Out, Outs, SMALL, Slot, To},
    lanes::{Car, LaneVote, Missing},
};

impl Autobahn {
    /// Answers with a car and as much of its history as is asked for and fits.
    pub(super) fn on_sync(&mut self, now: Micros, from: Index, sync: Sync, out: &mut Outs<Self>) {
        let mut cars = Vec::new();
        let (mut next, mut bytes, mut weight) = (sync.tip, 0, 0);
        while next.position > sync.above && cars.len() < MOST_CARS {
            let Some(car) = self.lanes.car(next.digest).filter(|car| car.header.body.lane == sync.lane) else { break };
            let length = car.batch.bytes() + SMALL;
            // A transaction of one byte takes more where it arrives.
            weight += length + 8 * car.batch.transactions().len();
            if !cars.is_empty() && weight > self.config.sync_bytes {
                break;
            }
            bytes += length;
            next = car.header.body.before();
            cars.push(car.clone());
        }
        if !cars.is_empty() && self.budgets.spend(from, now, self.config.resend, bytes) {
            out.push(Out::Send(To::One(from), Msg::Cars(cars)));
        }
    }

    /// Returns true if cars are a chain from a tip that this replica has asked for.
    pub(super) fn wants_cars(&self, cars: &[Car]) -> bool {
        let (n, one_correct) = (self.config.quorums.n(), self.config.quorums.one_correct());
        let Some(first) = cars.first() else { return false };
        let asked = self.questions.asked.get(&(first.header.body.lane, first.header.body.digest()));
        let chained = cars.windows(2).all(|pair| {
            let (newer, older) = (&pair[0].header.body, &pair[1].header.body);
            newer.lane == older.lane && newer.before() == older.tip()
        });
        asked.is_some_and(|ask| cars.len() as u64 <= first.header.body.position.saturating_sub(ask.missing.above))
            && chained
            && cars.iter().all(|car| car.is_well_formed(one_correct, n) && car.batch.bytes() <= self.config.batch_bytes)
    }

    /// Sends a replica the cars of its own lane above the committed one, newest first, as far as they fit.
    pub(super) fn send_lane(&mut self, now: Micros, to: Index, out: &mut Outs<Self>) {
        let history = self.lanes.walk(to, self.lanes.newest(to), self.lanes.committed(to).position);
        let (mut cars, mut weight) = (Vec::new(), 0);
        for car in history.unwrap_or_default() {
            // Oldest first: later ones follow with the next question.
            weight += car.batch.bytes() + SMALL + 8 * car.batch.transactions().len();
            if cars.len() == MOST_CARS || weight > self.config.sync_bytes && !cars.is_empty() {
                break;
            }
            cars.push(car.clone());
        }
        cars.reverse();
        if !cars.is_empty() && self.budgets.spend(to, now, self.config.resend, weight) {
            out.push(Out::Send(To::One(to), Msg::Cars(cars)));
        }
    }

    /// Returns true if these are own cars, signed by this replica, that follow its newest and that it does not know: it has lost its log,
    /// and must go on behind them.
    pub(super) fn is_forgotten(&self, cars: &[Car]) -> bool {
        let (n, one_correct) = (self.config.quorums.n(), self.config.quorums.one_correct());
        let chained = cars.windows(2).all(|pair| pair[0].header.body.before() == pair[1].header.body.tip());
        let newest = self.lanes.newest(self.me);
        let follows = cars.last().is_some_and(|oldest| oldest.header.body.before() == newest);
        let own = |car: &Car| car.header.body.lane == self.me && car.is_well_formed(one_correct, n);
        follows && chained && cars.iter().all(own)
    }

    /// Takes own cars from before the log was lost: their positions are used.
    fn remember(&mut self, cars: Vec<Car>, out: &mut Outs<Self>) {
        for car in cars.into_iter().rev() {
            let vote = LaneVote { lane: self.me, tip: car.tip() };
            out.push(Out::Persist(Record::Car(car.clone())));
            out.push(Out::Persist(Record::LaneVote(vote)));
            self.lanes.give(car);
        }
    }

    pub(super) fn on_cars(&mut self, cars: Vec<Car>, out: &mut Outs<Self>) {
        if self.is_forgotten(&cars) {
            return self.remember(cars, out);
        }
        let (Some(first), Some(last)) = (cars.first(), cars.last()) else { return };
        let (lane, before) = (first.header.body.lane, last.header.body.before());
        let ask = self.questions.asked.remove(&(lane, first.header.body.digest()));
        let above = ask.map_or(0, |ask| ask.missing.above);
        for car in cars {
            if self.lanes.keep(car.clone()) {
                out.push(Out::Persist(Record::Car(car)));
            }
        }
        if before.position > above && self.lanes.car(before.digest).is_none() {
            self.ask(Missing { lane, tip: before, above }, ask.and_then(|ask| ask.first), out);
        }
        let taken = self.lanes.follow(lane);
        self.on_taken(lane, taken, None, out);
    }

    pub(super) fn on_want_cut(&mut self, now: Micros, from: Index, want: WantCut, out: &mut Outs<Self>) {
        let cut = self.slots.get(&want.slot).and_then(|state| state.cuts.get(&want.digest)).cloned();
        if let Some(cut) = cut
            && self.budgets.spend(from, now, self.config.resend, SMALL + 40 * cut.len())
        {
            out.push(Out::Send(To::One(from), Msg::Cut(CutOf { slot: want.slot, cut })));
        }
    }

    /// Tells a replica what was decided in a slot.
    pub(super) fn send_decision(&mut self, now: Micros, to: Index, slot: Slot, out: &mut Outs<Self>) {
        let Some(state) = self.slots.get(&slot) else { return };
        let Some(qc) = state.instance.committed.clone() else { return };
        let cut = state.cuts.get(&qc.digest).cloned().unwrap_or_default();
        let bytes = SMALL + 40 * cut.len() + 100 * qc.ballots.len();
        if self.budgets.spend(to, now, self.config.resend, bytes) {
            out.push(Out::Send(To::One(to), Msg::Commit(Commit { qc, cut })));
        }
    }
}
