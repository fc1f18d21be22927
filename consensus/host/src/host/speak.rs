//! A silent replica among the others: its questions, their answers, and the end of its silence.

use super::Host;
use crate::{
    action::HostTimer,
    frame::{Frame, Reached},
    record::HostRecord,
};
use phalanx_bft::{Index, Protocol, To};

/// Repetitions of state votes between two questions.
const REST: u64 = 4;
/// Length of an answer with its frame, in bytes, for the budget of the replica that asks.
const ANSWER: usize = 128;

impl<P: Protocol> Host<P> {
    /// Requests the reach of the others, while this replica is silent.
    pub(super) fn ask_reach(&mut self) {
        if self.is_silent() {
            self.outbox.send(To::All, Frame::WantReach(self.config.start));
            self.outbox.set(HostTimer::Silence, REST.saturating_mul(self.config.resend));
            self.try_speak();
        }
    }

    /// Answers a replica without its log, and repeats what it has said. One that is silent itself knows too little.
    pub(super) fn tell_reach(&mut self, to: Index, start: u64) {
        let Some(protocol) = self.protocol.as_ref().filter(|_| self.silence.is_none()) else { return };
        let Some(reach) = protocol.reach() else { return };
        let now = self.now;
        if self.budgets.spend(to, now, self.config.resend, ANSWER) {
            self.outbox.send(To::One(to), Frame::Reached(Reached { start, reach }));
            self.call(|protocol, out| protocol.remind(now, to, out));
        }
    }

    pub(super) fn on_reached(&mut self, from: Index, reached: Reached) {
        let is_other = from != self.me && usize::from(from.0) < self.config.quorums.n();
        if let Some(silence) = self.silence.as_mut().filter(|_| is_other && reached.start == self.config.start) {
            silence.note(from, reached.reach);
            self.try_speak();
        }
    }

    /// Ends the silence, once nothing that this replica may have said matters.
    pub(super) fn try_speak(&mut self) {
        let Some(reach) = self.protocol.as_ref().and_then(Protocol::reach) else { return };
        let (needed, window) = (self.config.quorums.available(), reach.last.saturating_sub(reach.stable));
        let bounds = self.silence.as_ref().and_then(|silence| silence.bounds(needed, window));
        let Some((view, _)) = bounds.filter(|(_, slot)| reach.stable >= *slot) else { return };
        self.silence = None;
        self.outbox.cancel(HostTimer::Silence);
        self.call(|protocol, out| protocol.speak(view, out));
        // Behind the records that keep the replica out of lower views.
        self.outbox.append(HostRecord::Silent(false));
    }
}
