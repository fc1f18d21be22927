//! Patience with a primary, as PBFT needs it.
//!
//! The paper's replica leaves when its timer expires. A VIEW-CHANGE keeps its sender out of the view that it leaves. So a replica
//! that was suspended or cut off would vote no more until all change views, as one of the f faults.

use super::{
    message::Msg,
    replica::{Pbft, Phase, Timer},
};
#[cfg(feature = "mutations")]
use crate::core::Impatience;
use crate::core::{Clock, Index, Micros, Outs, Patient, Quorums, ReplicaSet, Timers, View};

impl Patient for Pbft {
    const TIMERS: Timers<Timer> = Timers {
        complain: Timer::Complain,
        progress: Timer::Progress,
        new_view: Timer::NewView,
        resend: Timer::Resend,
    };

    fn complaint(view: View) -> Msg {
        Msg::Complaint(view)
    }

    fn clock(&mut self) -> &mut Clock {
        &mut self.clock
    }

    fn pace(&self) -> (Micros, Micros) {
        (self.config.timeout, self.config.resend)
    }

    fn me(&self) -> Index {
        self.me
    }

    fn quorums(&self) -> Quorums {
        self.config.quorums
    }

    fn waits(&self) -> bool {
        self.phase == Phase::Active && self.is_waiting()
    }

    fn waits_for_view(&self) -> bool {
        let left = self.changes.newest.values().filter(|known| known.change.body.view >= self.view).count();
        self.phase == Phase::Changing && left >= self.config.quorums.available()
    }

    /// A checkpoint above the decided prefix is reached soon, or its state has to be fetched.
    fn waits_for_others(&self) -> bool {
        let behind = self.ahead > self.decided || self.committed < self.stable.slot;
        let announced = self.checkpoints.contains_key(&self.me);
        behind || self.is_waiting() || self.phase == Phase::Changing || announced
    }

    fn holds(&self) -> bool {
        self.hold
    }

    fn gone(&self) -> ReplicaSet {
        let gone = self.changes.newest.iter().filter(|(_, known)| known.change.body.view > self.view);
        gone.map(|(signer, _)| *signer).collect()
    }

    fn leave_view(&mut self, out: &mut Outs<Self>) {
        self.leave(self.view + 1, out);
    }

    #[cfg(feature = "mutations")]
    fn impatience(&self) -> Option<Impatience> {
        match self.config.mutation {
            Some(super::config::Mutation::Patience(rule)) => Some(rule),
            _ => None,
        }
    }
}
