//! Cars and cuts that a replica lacks, off the path of the agreement.
//!
//! A certified tip proves its whole history, so one question names it all; answers come newest car first and are checked by
//! digest from the tip down. A question goes to one replica at a time, a replica that certified the tip first, and to the
//! next one with each repetition.

use super::{
    message::{Commit, CutOf, MOST_CARS, Msg, Sync, WantCut},
    record::Record,
    replica::Autobahn,
};
use crate::{
    core::{Index, Micros, Out, Outs, SMALL, Slot, To},
    lanes::{Car, Certificate, LaneVote, Missing},
};
use alloy_primitives::B256;

/// A question for cars.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    missing: Missing,
    /// Replica that is asked first.
    first: Option<Index>,
    attempts: usize,
    /// Repetitions since the question came up: it is asked again after 1, 2, 4, ... of them, since answers are long.
    ticks: usize,
}

impl Autobahn {
    /// Notes which replicas have a lane's cars.
    pub(super) fn note_sources(&mut self, certificate: &Certificate) {
        let signers: Vec<Index> = certificate.ballots.iter().map(|ballot| ballot.signer).collect();
        if !signers.is_empty() {
            self.sources.insert(certificate.lane, signers);
        }
    }

    /// Asks for missing cars, unless they are asked for.
    pub(super) fn ask(&mut self, missing: Missing, first: Option<Index>, out: &mut Outs<Self>) {
        let key = (missing.lane, missing.tip.digest);
        // Questions are bounded: each lane has few branches that a correct replica can name.
        if self.asks.contains_key(&key) || self.asks.len() >= 4 * self.config.quorums.n() + 16 {
            return;
        }
        let ask = Ask { missing, first, attempts: 0, ticks: 0 };
        self.asks.insert(key, ask);
        self.send_ask(ask, out);
    }

    fn send_ask(&self, ask: Ask, out: &mut Outs<Self>) {
        let Missing { lane, tip, above } = ask.missing;
        let known = self.sources.get(&lane).into_iter().flatten().copied();
        let all = self.config.quorums.replicas().map(|at| Index((at.0 + lane.0) % self.config.quorums.n() as u16));
        let order: Vec<Index> = ask.first.into_iter().chain(known).chain(all).filter(|at| *at != self.me).collect();
        if let Some(to) = order.get(ask.attempts % order.len().max(1)) {
            out.push(Out::Send(To::One(*to), Msg::Sync(Sync { lane, tip, above })));
        }
    }

    /// Repeats questions, each to the next replica, and drops those whose answer is of no use any longer.
    pub(super) fn repeat_asks(&mut self, out: &mut Outs<Self>) {
        let lanes = &self.lanes;
        self.asks.retain(|(lane, digest), ask| {
            ask.missing.tip.position > lanes.committed(*lane).position && lanes.car(*digest).is_none()
        });
        // Optimistic tips that no proposal names any longer stay unanswered.
        self.asks.retain(|_, ask| ask.ticks < 64);
        let mut due = Vec::new();
        for ask in self.asks.values_mut() {
            ask.ticks += 1;
            if ask.ticks.is_power_of_two() || ask.ticks.is_multiple_of(8) {
                ask.attempts += 1;
                due.push(*ask);
            }
        }
        due.into_iter().for_each(|ask| self.send_ask(ask, out));
    }

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
        let asked = self.asks.get(&(first.header.body.lane, first.header.body.digest()));
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
        let ask = self.asks.remove(&(lane, first.header.body.digest()));
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

    pub(super) fn want_cut(&self, slot: Slot, digest: B256, out: &mut Outs<Self>) {
        out.push(Out::Send(To::All, Msg::WantCut(WantCut { slot, digest })));
    }

    /// Asks for the cut that a proposal needs, unless that was done in this view.
    pub(super) fn ask_cut(&mut self, want: WantCut, out: &mut Outs<Self>) {
        let view = self.view_of(want.slot);
        let state = self.slot(want.slot);
        if state.asked != Some(view) {
            state.asked = Some(view);
            self.want_cut(want.slot, want.digest, out);
        }
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
