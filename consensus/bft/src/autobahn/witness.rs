//! Comparison of every signed statement that comes with what this replica knows of its signer.
//!
//! The known statements are kept anyway: votes of open slots, certificates, cars, checkpoints. So evidence costs no memory, and a
//! contradiction is found while one of its sides is still retained.

use super::{
    certificate::{Phase, Qc},
    evidence::Testimony,
    message::Msg,
    replica::Autobahn,
    slot::Instance,
    statement::{Ack, PrepVote},
};
use crate::{
    core::{Index, Out, Outs, Signed, Slot},
    lanes::{Car, Certificate, LaneVote},
};

impl Autobahn {
    /// Returns true if the sender's own statement in a message contradicts another one of its statements, for the first time:
    /// worth verifying even if the message is of no other use.
    pub(super) fn incriminates(&self, from: Index, message: &Msg) -> bool {
        let statement = match message {
            Msg::Prepare(prepare) if self.is_fit(from, prepare) => Testimony::Vote(prepare.vote.clone()),
            Msg::Vote(signed) => Testimony::Vote(signed.clone()),
            Msg::Ack(signed) => Testimony::Ack(signed.clone()),
            Msg::Timeout(complaint) if complaint.is_whole(&self.config) => {
                Testimony::Timeout(complaint.timeout.clone())
            }
            Msg::Checkpoint(signed) => Testimony::Checkpoint(signed.clone()),
            Msg::LaneVote(signed) => Testimony::LaneVote(signed.clone()),
            _ => return false,
        };
        statement.signer() == from && self.contradicted(&statement).is_some()
    }

    /// Names every replica whose statement in a verified message contradicts a known one, once each.
    pub(super) fn examine(&mut self, message: &Msg, out: &mut Outs<Self>) {
        for statement in self.statements(message) {
            if let Some(known) = self.contradicted(&statement) {
                let against = statement.signer();
                self.accused.insert(against);
                let proof = [alloy_rlp::encode(&known), alloy_rlp::encode(&statement)].concat();
                out.push(Out::Evidence { against, proof: proof.into() });
            }
        }
    }

    /// A known statement of the same signer that contradicts this one, unless the signer is convicted already.
    fn contradicted(&self, statement: &Testimony) -> Option<Testimony> {
        let signer = statement.signer();
        if signer == self.me || self.accused.contains(signer) {
            return None;
        }
        self.known(statement).into_iter().find(|known| known.contradicts(statement))
    }

    /// Statements of the same signer about the same thing.
    fn known(&self, statement: &Testimony) -> Vec<Testimony> {
        let signer = statement.signer();
        let of_slot = |slot: Slot| {
            let Some(state) = self.slots.get(&slot) else { return Vec::new() };
            let mut known = heard(&state.instance, slot, signer);
            known.extend(state.lead.iter().filter(|lead| lead.signer == signer).cloned().map(Testimony::Vote));
            known
        };
        match statement {
            Testimony::Vote(signed) => of_slot(signed.body.slot),
            Testimony::Ack(signed) => of_slot(signed.body.slot),
            Testimony::Timeout(signed) => of_slot(signed.body.slot),
            Testimony::Car(signed) => self.known_of_car(signer, signed.body.lane, signed.body.position),
            Testimony::LaneVote(signed) => self.known_of_car(signer, signed.body.lane, signed.body.tip.position),
            Testimony::Checkpoint(_) => {
                let proof = self.checkpoints.proof.iter().find(|known| known.signer == signer);
                self.checkpoints
                    .newest
                    .get(&signer)
                    .into_iter()
                    .chain(proof)
                    .cloned()
                    .map(Testimony::Checkpoint)
                    .collect()
            }
        }
    }

    fn known_of_car(&self, signer: Index, lane: Index, position: u64) -> Vec<Testimony> {
        let cars = self.lanes.branches(lane, position).filter(|car| car.header.signer == signer);
        let mut known: Vec<Testimony> = cars.map(|car| Testimony::Car(car.header.clone())).collect();
        let certificate = self.lanes.certificate(lane).filter(|certificate| certificate.tip.position == position);
        if let Some(Certificate { lane, tip, ballots }) = certificate {
            let own = ballots.into_iter().filter(|ballot| ballot.signer == signer);
            let vote = |signature| Signed { signer, signature, body: LaneVote { lane, tip } };
            known.extend(own.map(|ballot| Testimony::LaneVote(vote(ballot.signature))));
        }
        known
    }

    /// Signed statements in a message. Those of lanes only where another branch is known.
    fn statements(&self, message: &Msg) -> Vec<Testimony> {
        let mut found = Vec::new();
        match message {
            Msg::Car(car) => self.of_car(car, &mut found),
            Msg::Cars(cars) => cars.iter().for_each(|car| self.of_car(car, &mut found)),
            Msg::LaneVote(signed) => found.push(Testimony::LaneVote(signed.clone())),
            Msg::Certificate(certificate) => self.of_certificate(certificate, &mut found),
            Msg::Status(status) => status.tips.iter().for_each(|tip| self.of_certificate(tip, &mut found)),
            Msg::Prepare(prepare) => {
                found.push(Testimony::Vote(prepare.vote.clone()));
                prepare.proofs.iter().for_each(|proof| self.of_certificate(proof, &mut found));
                let qcs = prepare.commit.iter().chain(prepare.tc.iter().flat_map(|tc| &tc.qc));
                qcs.for_each(|qc| self.of_qc(qc, &mut found));
                found.extend(prepare.tc.iter().flat_map(|tc| &tc.timeouts).cloned().map(Testimony::Timeout));
            }
            Msg::Vote(signed) => found.push(Testimony::Vote(signed.clone())),
            Msg::Ack(signed) => found.push(Testimony::Ack(signed.clone())),
            Msg::Confirm(qc) => self.of_qc(qc, &mut found),
            Msg::Commit(commit) => self.of_qc(&commit.qc, &mut found),
            Msg::Timeout(complaint) => {
                found.push(Testimony::Timeout(complaint.timeout.clone()));
                found.extend(complaint.lead.iter().cloned().map(Testimony::Vote));
                complaint.qc.iter().for_each(|qc| self.of_qc(qc, &mut found));
            }
            Msg::Tc(tc) => {
                found.extend(tc.timeouts.iter().cloned().map(Testimony::Timeout));
                tc.qc.iter().for_each(|qc| self.of_qc(qc, &mut found));
            }
            Msg::Checkpoint(signed) => found.push(Testimony::Checkpoint(signed.clone())),
            Msg::Stable(proof) => found.extend(proof.iter().cloned().map(Testimony::Checkpoint)),
            Msg::Sync(_) | Msg::WantCut(_) | Msg::Cut(_) => {}
        }
        found
    }

    fn of_car(&self, car: &Car, found: &mut Vec<Testimony>) {
        let (lane, tip) = (car.header.body.lane, car.tip());
        let branches = self.lanes.branches(lane, tip.position).any(|known| known.header.body != car.header.body);
        let certified = self.lanes.certified(lane);
        if branches || certified.position == tip.position && certified.digest != tip.digest {
            found.push(Testimony::Car(car.header.clone()));
        }
        if tip.position > 1 {
            self.of_certificate(&car.certificate(), found);
        }
    }

    fn of_certificate(&self, certificate: &Certificate, found: &mut Vec<Testimony>) {
        let (lane, tip) = (certificate.lane, certificate.tip);
        let certified = self.lanes.certified(lane);
        let other = certified.position == tip.position && certified.digest != tip.digest;
        if other || self.lanes.branches(lane, tip.position).any(|car| car.tip() != tip) {
            let vote = |signer, signature| Signed { signer, signature, body: LaneVote { lane, tip } };
            let ballots = certificate.ballots.iter().cloned();
            found.extend(ballots.map(|ballot| Testimony::LaneVote(vote(ballot.signer, ballot.signature))));
        }
    }

    fn of_qc(&self, qc: &Qc, found: &mut Vec<Testimony>) {
        if self.slots.contains_key(&qc.slot) {
            found.extend(qc.ballots.iter().map(|ballot| of_ballot(qc, ballot.signer, ballot.signature.clone())));
        }
    }
}

const fn of_ballot(qc: &Qc, signer: Index, signature: alloy_primitives::Bytes) -> Testimony {
    let Qc { slot, view, digest, .. } = *qc;
    match qc.phase {
        Phase::Prepare => Testimony::Vote(Signed { signer, signature, body: PrepVote { slot, view, digest } }),
        Phase::Confirm => Testimony::Ack(Signed { signer, signature, body: Ack { slot, view, digest } }),
    }
}

/// Statements of a replica that the agreement of a slot retains.
fn heard(instance: &Instance, slot: Slot, signer: Index) -> Vec<Testimony> {
    let mut known = Vec::new();
    if let Some((mark, signature)) = instance.votes.get(&signer) {
        let body = PrepVote { slot, view: mark.view, digest: mark.digest };
        known.push(Testimony::Vote(Signed { signer, signature: signature.clone(), body }));
    }
    if let Some((mark, signature)) = instance.acks.get(&signer) {
        let body = Ack { slot, view: mark.view, digest: mark.digest };
        known.push(Testimony::Ack(Signed { signer, signature: signature.clone(), body }));
    }
    let complaints = instance.complaints.get(&signer).map(|complaint| &complaint.timeout);
    let ticket = instance.ticket.iter().flat_map(|tc| &tc.timeouts).filter(|timeout| timeout.signer == signer);
    known.extend(complaints.into_iter().chain(ticket).cloned().map(Testimony::Timeout));
    let leads = instance.complaints.values().flat_map(|complaint| &complaint.lead);
    known.extend(leads.filter(|lead| lead.signer == signer).cloned().map(Testimony::Vote));
    for qc in instance.locked.iter().chain(&instance.committed) {
        let ballots = qc.ballots.iter().filter(|ballot| ballot.signer == signer);
        known.extend(ballots.map(|ballot| of_ballot(qc, signer, ballot.signature.clone())));
    }
    known
}
