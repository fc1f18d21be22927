//! Repetition against loss: what is open is said again, and replicas tell each other how far they are.

use super::{
    message::{Msg, Status},
    replica::Autobahn,
};
use crate::core::{Index, Micros, Out, Outs, SMALL, To};
use alloy_primitives::B256;

/// Decisions in answer to one status.
const MOST_DECISIONS: u64 = 32;

impl Autobahn {
    /// Says again what others may have missed.
    pub(super) fn repeat(&mut self, out: &mut Outs<Self>) {
        // What is younger than the last repetition is probably in flight.
        let (slot, digest) = self.timers.repeated;
        let old = self.slots.range(..=slot).filter(|(_, state)| state.instance.committed.is_none());
        for (_, state) in old {
            out.extend(state.said.values().map(|(to, message)| Out::Send(*to, message.clone())));
        }
        let car = self.lanes.uncertified().map(|car| (car.header.body.digest(), car.clone()));
        self.timers.repeated.0 = self.slots.last_key_value().map_or(0, |(slot, _)| *slot);
        self.timers.repeated.1 = car.as_ref().map_or(B256::ZERO, |(digest, _)| *digest);
        if let Some((_, car)) = car.filter(|(of, _)| *of == digest) {
            out.push(Out::Send(To::All, Msg::Car(car)));
        }
        self.repeat_asks(out);
        let lacking: Vec<_> = self.slots.keys().filter_map(|slot| Some((*slot, self.lacks_cut(*slot)?))).collect();
        lacking.into_iter().for_each(|(slot, digest)| self.want_cut(slot, digest, out));
        self.repeat_checkpoint(out);
        out.push(Out::Send(To::All, Msg::Status(self.status())));
    }

    fn status(&self) -> Status {
        let tips = self.config.quorums.replicas().filter_map(|lane| self.lanes.certificate(lane)).collect();
        Status { done: self.done, stable: self.checkpoints.stable.slot, tips }
    }

    pub(super) fn on_status(&mut self, now: Micros, from: Index, status: Status, out: &mut Outs<Self>) {
        for tip in status.tips {
            self.note_sources(&tip);
            self.lanes.certify(tip);
        }
        // Also a replica that has got there needs the proof: its window ends behind its own stable checkpoint.
        if status.stable < self.checkpoints.stable.slot {
            let bytes = self.checkpoints.proof.len() * (SMALL + 40 * self.checkpoints.stable.frontier.len());
            if self.budgets.spend(from, now, self.config.resend, bytes) {
                out.push(Out::Send(To::One(from), Msg::Stable(self.checkpoints.proof.clone())));
            }
        }
        let decided = self.slots.range(status.done + 1..).take_while(|(_, s)| s.instance.committed.is_some());
        let slots: Vec<u64> = decided.map(|(slot, _)| *slot).take(MOST_DECISIONS as usize).collect();
        slots.into_iter().for_each(|slot| self.send_decision(now, from, slot, out));
        // A replica that is ahead learns that this one is behind.
        if status.done > self.top && self.budgets.spend(from, now, self.config.resend, SMALL) {
            out.push(Out::Send(To::One(from), Msg::Status(self.status())));
        }
    }
}
