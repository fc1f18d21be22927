//! Autobahn in worlds.

use super::{Facts, Pace, Vote, kind};
use crate::{crypto::is_genuine, liar::Liar};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::{
    Batch, Domain, Index, Quorums, Slot, View,
    autobahn::{Autobahn, Complaint, Config, Mark, Msg, PrepVote, Prepare, Record, Timeout, convict},
    lanes::{Car, Header, Tip, cut_digest},
};
use rand::Rng as _;

impl Facts for Autobahn {
    of_config!();

    fn config(quorums: Quorums, domain: Domain, pace: Pace) -> Config {
        let Pace { interval, timeout, resend } = pace;
        Config { interval, timeout, resend, ..Config::new(quorums, domain) }
    }

    fn vote(message: &Msg) -> Option<Vote> {
        let of_car = |kind, lane: u64, tip: Tip| Some((kind, lane, tip.position, tip.digest));
        match message {
            Msg::Car(car) => of_car(kind::CAR, 0, car.tip()),
            Msg::LaneVote(vote) => of_car(kind::LANE_VOTE, u64::from(vote.body.lane.0), vote.body.tip),
            Msg::Certificate(certificate) => of_car(kind::CERTIFIED, u64::from(certificate.lane.0), certificate.tip),
            Msg::Prepare(p) => Some((kind::PROPOSAL, p.vote.body.view, p.vote.body.slot, p.vote.body.digest)),
            Msg::Vote(vote) => Some((kind::VOTE, vote.body.view, vote.body.slot, vote.body.digest)),
            Msg::Ack(ack) => Some((kind::ORDER, ack.body.view, ack.body.slot, ack.body.digest)),
            Msg::Timeout(complaint) => {
                let Timeout { slot, view, .. } = complaint.timeout.body;
                Some((kind::COMPLAINT, view, slot, B256::ZERO))
            }
            _ => None,
        }
    }

    /// Announced order votes are of blocks, whose slots are not those of the agreement.
    fn locks(record: &Record, view: View, slot: Slot, digest: Option<B256>) -> bool {
        let Record::Acked(qc) = record else { return false };
        digest.is_none_or(|digest| (qc.slot, qc.view, qc.digest) == (slot, view, digest))
    }

    /// Proposed batches leave the pool.
    fn is_in_flight(&self, _: B256) -> bool {
        false
    }

    fn decided(&self) -> Slot {
        self.done()
    }

    fn stable(&self) -> Slot {
        Self::stable(self).slot
    }

    fn leads(message: &Msg) -> bool {
        matches!(message, Msg::Prepare(_) | Msg::Confirm(_))
    }

    fn gives_up(message: &Msg) -> Option<u64> {
        let Msg::Timeout(complaint) = message else { return None };
        Some(complaint.timeout.body.slot << 16 | complaint.timeout.body.view)
    }

    fn convicts(proof: &[u8], against: Index, domain: Domain) -> bool {
        convict(proof, domain, |claims| claims.iter().all(is_genuine)) == Some(against)
    }

    /// No group signs, and a wrong signature of its own would be an absent message.
    fn spoils(_: &mut Liar<'_>) -> bool {
        false
    }

    /// Forks of its lane, other cuts, votes for anything, invented complaints, or nothing.
    fn betray(message: &Msg, liar: &mut Liar<'_>) -> Vec<Msg> {
        let roll = liar.rng.random_range(0..8);
        if liar.calm && roll < 4 {
            return Vec::new();
        }
        match (message, roll) {
            (_, 0) => Vec::new(),
            (Msg::Car(car), 1..5) => {
                let content = vec![(liar.to % 2) as u8, car.header.body.position as u8];
                let batch = Batch::new(1, Address::ZERO, vec![Bytes::from(content)]);
                let body = Header { batch: batch.digest(), ..car.header.body };
                vec![Msg::Car(Car { header: liar.signed(body), batch, proof: car.proof.clone() })]
            }
            (Msg::Prepare(prepare), 1..5) => {
                let mut cut = prepare.cut.clone();
                let at = liar.rng.random_range(0..cut.len());
                match liar.rng.random_range(0..3) {
                    0 => cut[at] = Tip::default(),
                    1 => cut[at].position += 1,
                    _ => cut[at].digest = B256::repeat_byte(liar.to as u8),
                }
                let body = PrepVote { digest: cut_digest(&cut), ..prepare.vote.body };
                vec![Msg::Prepare(Prepare { vote: liar.signed(body), cut, ..prepare.clone() })]
            }
            (Msg::Vote(vote), 1..4) => {
                let body = PrepVote { digest: B256::repeat_byte(liar.to as u8), ..vote.body };
                vec![Msg::Vote(liar.signed(body)), message.clone()]
            }
            (Msg::Timeout(complaint), 1..5) => {
                let body = Timeout { qc: Mark::default(), prop: Mark::default(), ..complaint.timeout.body };
                let timeout = liar.signed(body);
                vec![Msg::Timeout(Complaint { timeout, qc: Vec::new(), cut: Vec::new(), lead: Vec::new() })]
            }
            (Msg::Cars(_) | Msg::Cut(_) | Msg::Commit(_) | Msg::Certificate(_), 1..5) => Vec::new(),
            _ => vec![message.clone()],
        }
    }
}
