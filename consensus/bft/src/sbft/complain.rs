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
use crate::core::{Complaints, Index, Outs, Patient, Quorums, ReplicaSet, View};

impl Patient for Sbft {
    const COMPLAIN: Timer = Timer::Complain;

    fn complaint(view: View) -> Msg {
        Msg::Complaint(view)
    }

    fn complaints(&mut self) -> &mut Complaints {
        &mut self.complaints
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

    fn holds(&self) -> bool {
        self.hold
    }

    fn gone(&self) -> ReplicaSet {
        ahead(&self.changes, self.view).0
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
