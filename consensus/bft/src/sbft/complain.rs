//! Patience with a primary: a replica complains first, and leaves its view once f other ones wait as well.
//!
//! A replica that leaves alone takes its shares with it: the fast path with c = 0 would be lost until all change views.

use super::{
    choose::ahead,
    message::Msg,
    replica::{Phase, Sbft, Timer},
};
use crate::core::{Index, Out, Outs, To, View};

impl Sbft {
    /// True if the own complaint is due: nothing was said yet.
    pub(super) fn is_quiet(&self) -> bool {
        !self.complaints.has(self.me)
    }

    /// Half of the patience is over.
    pub(super) fn complaint_is_due(&mut self, out: &mut Outs<Self>) {
        self.complaints.runs = false;
        if self.has_reason() {
            self.complain(out);
        }
    }

    /// Patience is over.
    pub(super) fn patience_is_over(&mut self, out: &mut Outs<Self>) {
        self.progress_runs = false;
        if self.has_reason() {
            self.complaints.expire();
            self.complain(out);
            self.try_leave(out);
            if self.phase == Phase::Active {
                // In vain. A replica that waits still complains again, and one that is served does not take its complaint back.
                self.complaints.renew(self.me);
            }
        } else {
            self.calm_down(out);
        }
    }

    /// Another replica complains.
    pub(super) fn on_complaint(&mut self, from: Index, view: View, out: &mut Outs<Self>) {
        // Complaints from before this replica waits may be out of date; those that are not come again.
        if view == self.view && self.phase == Phase::Active && self.is_waiting() {
            self.complaints.note(from);
            self.try_leave(out);
        }
    }

    /// Leaves the view once f+1 replicas wait, this one among them: in vain while the others are served.
    pub(super) fn try_leave(&mut self, out: &mut Outs<Self>) {
        // A replica that has left its view has complained enough.
        let left = ahead(&self.changes, self.view).0;
        let left = left.iter();
        if self.has_reason() && self.complaints.suffice(left, self.witnesses()) {
            self.leave(self.view + 1, out);
        }
    }

    /// Repeats the own complaint: it may have been lost.
    pub(super) fn repeat_complaint(&self, out: &mut Outs<Self>) {
        if self.has_reason() && !self.is_quiet() {
            out.push(Out::Send(To::All, Msg::Complaint(self.view)));
        }
    }

    /// Forgets all complaints: the primary does its work, or is another one.
    pub(super) fn calm_down(&mut self, out: &mut Outs<Self>) {
        if core::mem::take(&mut self.complaints).runs {
            out.push(Out::Cancel(Timer::Complain));
        }
    }

    #[cfg(feature = "mutations")]
    fn witnesses(&self) -> usize {
        if self.config.breaks(super::Mutation::LeaveAlone) { 1 } else { self.config.quorums.one_correct() }
    }

    #[cfg(not(feature = "mutations"))]
    fn witnesses(&self) -> usize {
        self.config.quorums.one_correct()
    }

    fn complain(&mut self, out: &mut Outs<Self>) {
        self.complaints.note(self.me);
        out.push(Out::Send(To::All, Msg::Complaint(self.view)));
    }

    /// True while something waits. What the own pipeline keeps back is not the primary's fault.
    fn has_reason(&self) -> bool {
        self.phase == Phase::Active && self.is_waiting() && !self.hold
    }
}
