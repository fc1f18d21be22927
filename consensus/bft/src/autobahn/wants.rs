//! Messages that are worth their verification.

use super::{
    message::Msg,
    replica::Autobahn,
    state::SlotState,
    statement::{Ack, PrepVote, is_possible},
};
use crate::{
    core::{Index, Slot},
    lanes::cut_digest,
};

impl Autobahn {
    /// Returns true if a message can lead to something else than evidence.
    pub(super) fn needs(&self, from: Index, message: &Msg) -> bool {
        let (config, n) = (&self.config, self.config.quorums.n());
        let one_correct = config.quorums.one_correct();
        let is_open = |slot: Slot| self.slots.get(&slot).is_none_or(|state| state.instance.committed.is_none());
        self.is_other(from)
            && match message {
                Msg::Car(car) => {
                    car.header.body.lane == from
                        && car.is_well_formed(one_correct, n)
                        && car.batch.bytes() <= config.batch_bytes
                }
                Msg::LaneVote(signed) => signed.signer == from && signed.body.lane == self.me,
                Msg::Certificate(certificate) => {
                    certificate.is_well_formed(one_correct, n)
                        && certificate.tip.position > self.lanes.certified(certificate.lane).position
                }
                Msg::Prepare(prepare) => self.wants_prepare(from, prepare),
                Msg::Vote(signed) => {
                    let PrepVote { slot, view, .. } = signed.body;
                    let lacks = |state: &SlotState| state.instance.lacks_vote(from, view);
                    signed.signer == from
                        && self.in_window(slot)
                        && is_open(slot)
                        && self.slots.get(&slot).is_none_or(lacks)
                }
                Msg::Ack(signed) => {
                    let Ack { slot, view, .. } = signed.body;
                    let lacks = |state: &SlotState| state.instance.lacks_ack(from, view);
                    signed.signer == from
                        && self.in_window(slot)
                        && is_open(slot)
                        && self.slots.get(&slot).is_none_or(lacks)
                }
                Msg::Confirm(qc) => self.in_window(qc.slot) && is_open(qc.slot) && qc.is_prepared(config),
                Msg::Commit(commit) => {
                    self.in_window(commit.qc.slot) && is_open(commit.qc.slot) && commit.qc.is_commit(config)
                        || self.lacks_cut(commit.qc.slot) == Some(cut_digest(&commit.cut))
                }
                Msg::Timeout(complaint) => {
                    let body = &complaint.timeout.body;
                    complaint.timeout.signer == from
                        && self.in_window(body.slot)
                        && self.quota.allows(from, body.slot)
                        && is_possible(body)
                        && complaint.is_whole(config)
                        && self.slots.get(&body.slot).is_none_or(|state| {
                            state.instance.committed.is_some() || state.instance.wants_complaint(from, body.view)
                        })
                }
                Msg::Tc(tc) => tc.of(config).is_some_and(|(slot, view)| {
                    self.in_window(slot)
                        && is_open(slot)
                        && self.slots.get(&slot).is_none_or(|s| s.instance.view() <= view + 1)
                }),
                Msg::Sync(sync) => usize::from(sync.lane.0) < n,
                Msg::Cars(cars) => self.wants_cars(cars) || self.is_forgotten(cars),
                Msg::WantCut(_) => true,
                Msg::Cut(body) => self.lacks_cut(body.slot) == Some(cut_digest(&body.cut)),
                // One certificate per lane: each costs its verification.
                Msg::Status(status) => {
                    status.tips.is_sorted_by(|a, b| a.lane < b.lane)
                        && status.tips.iter().all(|tip| tip.is_well_formed(one_correct, n))
                }
                Msg::Checkpoint(signed) => signed.signer == from && self.wants_checkpoint(signed),
                Msg::Stable(proof) => self.wants_stable(proof),
            }
    }
}
