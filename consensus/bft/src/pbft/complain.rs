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
use crate::core::{Complaints, Index, Outs, Patient, Quorums, ReplicaSet, View};

impl Patient for Pbft {
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
        let gone = self.changes.iter().filter(|(_, known)| known.change.body.view > self.view);
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
