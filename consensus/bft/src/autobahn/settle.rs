//! Consequences of every input: votes, blocks, proposals, timers.

use super::{replica::Autobahn, state::Timer};
use crate::core::{Out, Outs};

/// Repetition is slower by this factor while a replica waits for nothing: it may have missed that there is something.
const IDLE_RATE: u64 = 16;

impl Autobahn {
    /// Does what has become possible, and sets timers.
    pub(super) fn settle(&mut self, out: &mut Outs<Self>) {
        self.vote_pending(out);
        self.advance(out);
        self.lead_next(out);
        self.set_timers(out);
    }

    /// Sets and cancels timers by the state.
    pub(super) fn set_timers(&mut self, out: &mut Outs<Self>) {
        let first = self.done + 1;
        for slot in first..=(self.top.max(self.done) + self.config.parallel + 1) {
            if !self.in_window(slot) {
                break;
            }
            let state = self.slots.get(&slot);
            let (view, waits) = state.map_or((0, false), |state| {
                let begun = state.seen || state.instance.view() > 0 || state.instance.vote().get().is_some();
                (state.instance.view(), begun)
            });
            let done = state.is_some_and(|state| state.instance.committed.is_some());
            let runs = state.and_then(|state| state.patience);
            if done || runs == Some(view) || !(waits || self.may_begin(slot) && self.is_uncovered(slot)) {
                continue;
            }
            let patience = self.config.timeout << view.min(10);
            self.slot(slot).patience = Some(view);
            out.push(Out::Timer(Timer::Patience(slot), patience));
        }
        let busy = self.is_busy();
        if self.timers.resend.is_none() || busy && self.timers.resend == Some(false) {
            let rest = if busy { 1 } else { IDLE_RATE };
            out.push(Out::Timer(Timer::Resend, self.config.resend * rest));
            self.timers.resend = Some(busy);
        }
    }

    /// Returns true if something waits.
    fn is_busy(&self) -> bool {
        let open = self.slots.range(self.done + 1..).any(|(_, state)| state.seen || state.instance.view() > 0);
        open || self.done < self.top
            || !self.questions.asked.is_empty()
            || self.checkpoints.beyond.is_some()
            || self.lanes.uncertified().is_some()
            || self.checkpoints.newest.contains_key(&self.me)
    }
}
