//! Cars: the own lane, votes on those of others, certificates of availability.

use super::{
    message::Msg,
    record::Record,
    replica::{Autobahn, Job},
};
use crate::{
    core::{Batch, Index, Micros, Out, Outs, To},
    lanes::{Ballot, Car, Certificate, LaneVote, Taken},
};

impl Autobahn {
    /// Puts a batch into the own lane.
    pub(super) fn load(&mut self, batch: Batch, out: &mut Outs<Self>) {
        if self.free_places() == 0 || batch.bytes() > self.config.batch_bytes {
            out.push(Out::Returned(batch));
            return;
        }
        let proof = self.lanes.proof();
        let header = self.lanes.make(&batch);
        self.sign(Job::Car(header, batch, proof), out);
    }

    pub(super) fn on_car(&mut self, now: Micros, car: Car, out: &mut Outs<Self>) {
        if car.batch.timestamp_ms() > self.config.epoch_ms + now / 1000 + self.config.ahead_ms {
            return;
        }
        let lane = car.header.body.lane;
        self.note_sources(&car.certificate());
        let digest = car.header.body.digest();
        let known = self.lanes.car(digest).is_some();
        let taken = self.lanes.take(car.clone());
        if !known && matches!(taken, Taken::Waits(_)) && self.lanes.car(digest).is_some() {
            out.push(Out::Persist(Record::Car(car.clone())));
        }
        self.on_taken(lane, taken, Some(car), out);
    }

    /// Votes for a car, or asks for what it waits for.
    pub(super) fn on_taken(&mut self, lane: Index, taken: Taken, car: Option<Car>, out: &mut Outs<Self>) {
        match taken {
            Taken::Nothing => {}
            Taken::Vote(vote) => {
                let car = car.or_else(|| self.lanes.car(vote.tip.digest).cloned());
                out.extend(car.map(|car| Out::Persist(Record::Car(car))));
                out.push(Out::Persist(Record::LaneVote(vote)));
                self.sign(Job::LaneVote(vote), out);
            }
            Taken::Again(vote) => self.sign(Job::LaneVote(vote), out),
            Taken::Waits(missing) => self.ask(missing, Some(lane), out),
        }
    }

    pub(super) fn count_lane_vote(&mut self, vote: LaneVote, ballot: Ballot, out: &mut Outs<Self>) {
        if let Some(certificate) = self.lanes.count(vote, ballot) {
            out.push(Out::Send(To::All, Msg::Certificate(certificate)));
        }
    }

    pub(super) fn on_certificate(&mut self, certificate: Certificate) {
        self.note_sources(&certificate);
        self.lanes.certify(certificate);
    }
}
