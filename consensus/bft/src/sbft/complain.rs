//! Patience with a primary, as SBFT needs it.
//!
//! A replica that leaves alone takes its shares with it: the fast path with c = 0 would be lost until all change views.

use super::{
    choose::ahead,
    message::Msg,
    replica::{Phase, Sbft, Timer},
};
#[cfg(feature = "mutations")]
use crate::core::Impatience;
use crate::core::{Clock, Index, Micros, Outs, Patient, Quorums, ReplicaSet, Timers, View};

impl Patient for Sbft {
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
        let left = self.changes.newest.values().filter(|known| known.body.view >= self.view).count();
        self.phase == Phase::Changing && left >= self.config.quorums.available()
    }

    /// A checkpoint above the decided prefix is reached soon, or its state has to be fetched.
    fn waits_for_others(&self) -> bool {
        let behind = self.checkpoints.certified.is_some() || self.committed < self.checkpoints.stable.checkpoint.slot;
        let announced = self.checkpoints.shares.contains_key(&self.me);
        behind || self.is_waiting() || self.phase == Phase::Changing || announced
    }

    fn holds(&self) -> bool {
        self.hold
    }

    fn gone(&self) -> ReplicaSet {
        ahead(&self.changes.newest, self.view).0
    }

    fn leave_view(&mut self, out: &mut Outs<Self>) {
        self.leave(self.view + 1, out);
    }

    #[cfg(feature = "mutations")]
    fn impatience(&self) -> Option<Impatience> {
        match self.config.mutation {
            Some(super::Mutation::Patience(rule)) => Some(rule),
            _ => None,
        }
    }
}
