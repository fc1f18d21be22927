//! Patience with a primary: a replica complains first, and leaves its view once f other ones wait as well.
//!
//! A protocol says when it waits and what leaving means; [`Complaints`] keeps which replicas complain.

use super::{
    clock::{Clock, Timers, switch},
    complaints::Complaints,
    protocol::{Micros, Out, Outs, Protocol, To, View},
    replica::{Index, Quorums, ReplicaSet},
};

/// Repetition is slower by this factor while a replica waits for nothing: it may have missed that there is something.
const IDLE_RATE: u64 = 16;

/// A rule of patience that is broken on purpose, to show that the tests notice.
#[cfg(feature = "mutations")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impatience {
    /// A replica leaves its view without complaints of others.
    LeaveAlone,
    /// Complaints of other times count.
    OldComplaints,
    /// The primary is blamed for what the own pipeline keeps back.
    BlameForHold,
}

/// A protocol whose view change keeps a replica out of the view that it leaves.
pub(crate) trait Patient: Protocol {
    /// Timers of patience, view changes and repetition.
    const TIMERS: Timers<Self::Timer>;

    /// The message that complains about the primary of a view.
    fn complaint(view: View) -> Self::Msg;

    fn clock(&mut self) -> &mut Clock;

    /// Patience with a primary at first, and time between two repetitions.
    fn pace(&self) -> (Micros, Micros);

    fn me(&self) -> Index;

    fn quorums(&self) -> Quorums;

    /// True if the view is open and something waits for its place in the order.
    fn waits(&self) -> bool;

    /// True if a quorum has left for a view that the primary has not opened.
    fn waits_for_view(&self) -> bool;

    /// True if something may have to be repeated soon.
    fn waits_for_others(&self) -> bool;

    /// True while the own pipeline is behind.
    fn holds(&self) -> bool;

    /// Replicas that have left the view.
    fn gone(&self) -> ReplicaSet;

    /// Leaves the view for the next one.
    fn leave_view(&mut self, out: &mut Outs<Self>);

    /// The rule that is broken on purpose.
    #[cfg(feature = "mutations")]
    fn impatience(&self) -> Option<Impatience>;

    /// Complaints about the primary.
    fn complaints(&mut self) -> &mut Complaints {
        &mut self.clock().complaints
    }

    /// Sets and cancels timers by the state.
    fn set_timers(&mut self, out: &mut Outs<Self>) {
        let (waits, quiet) = (self.waits(), self.is_quiet());
        let (new_view, others, (timeout, resend)) = (self.waits_for_view(), self.waits_for_others(), self.pace());
        let (names, clock) = (Self::TIMERS, self.clock());
        let [patience, last] = clock.patience(timeout);
        switch(&mut clock.progress_runs, waits, names.progress, patience, out);
        let due = Complaints::due_after(patience);
        switch(&mut clock.complaints.runs, waits && quiet, names.complain, due, out);
        switch(&mut clock.new_view_runs, new_view, names.new_view, last, out);
        if clock.resend_runs.is_none() || others && clock.resend_runs == Some(false) {
            out.push(Out::Timer(names.resend, resend * if others { 1 } else { IDLE_RATE }));
            clock.resend_runs = Some(others);
        }
    }

    /// Notes that the primary does its work: patience is as short as at first, and starts anew.
    fn progress(&mut self, out: &mut Outs<Self>) {
        self.clock().attempts = 0;
        self.restart_progress(out);
    }

    /// Starts patience anew.
    fn restart_progress(&mut self, out: &mut Outs<Self>) {
        self.calm_down(out);
        switch(&mut self.clock().progress_runs, false, Self::TIMERS.progress, 0, out);
    }

    /// True if the own complaint is due: nothing was said yet.
    fn is_quiet(&mut self) -> bool {
        let me = self.me();
        !self.complaints().has(me)
    }

    /// Half of the patience is over.
    fn complaint_is_due(&mut self, out: &mut Outs<Self>) {
        self.complaints().runs = false;
        if self.has_reason() {
            self.complain(out);
        }
    }

    /// Patience is over.
    fn patience_is_over(&mut self, out: &mut Outs<Self>) {
        self.clock().progress_runs = false;
        if !self.has_reason() {
            return self.calm_down(out);
        }
        self.complaints().expire();
        self.complain(out);
        let view = self.view();
        self.try_leave(out);
        #[cfg(feature = "mutations")]
        if self.impatience() == Some(Impatience::OldComplaints) {
            return;
        }
        if self.view() == view {
            // In vain. A replica that waits still complains again, and one that is served does not take its complaint back.
            let me = self.me();
            self.complaints().renew(me);
        }
    }

    /// Another replica complains.
    fn on_complaint(&mut self, from: Index, view: View, out: &mut Outs<Self>) {
        // Complaints from before this replica waits may be out of date; those that are not come again.
        if view == self.view() && self.waits() {
            self.complaints().note(from);
            self.try_leave(out);
        }
    }

    /// Leaves the view once f+1 replicas wait, this one among them: in vain while the others are served.
    fn try_leave(&mut self, out: &mut Outs<Self>) {
        // A replica that has left its view has complained enough.
        let (gone, needed) = (self.gone(), self.witnesses());
        if self.has_reason() && self.complaints().suffice(gone.iter(), needed) {
            self.leave_view(out);
        }
    }

    /// Repeats the own complaint: it may have been lost.
    fn repeat_complaint(&mut self, out: &mut Outs<Self>) {
        if self.has_reason() && !self.is_quiet() {
            out.push(Out::Send(To::All, Self::complaint(self.view())));
        }
    }

    /// Forgets all complaints: the primary does its work, or is another one.
    fn calm_down(&mut self, out: &mut Outs<Self>) {
        if core::mem::take(self.complaints()).runs {
            out.push(Out::Cancel(Self::TIMERS.complain));
        }
    }

    fn complain(&mut self, out: &mut Outs<Self>) {
        let me = self.me();
        self.complaints().note(me);
        out.push(Out::Send(To::All, Self::complaint(self.view())));
    }

    /// Replicas that have to wait before one of them leaves.
    fn witnesses(&self) -> usize {
        #[cfg(feature = "mutations")]
        if self.impatience() == Some(Impatience::LeaveAlone) {
            return 1;
        }
        self.quorums().one_correct()
    }

    /// True while something waits. What the own pipeline keeps back is not the primary's fault.
    fn has_reason(&self) -> bool {
        #[cfg(feature = "mutations")]
        if self.impatience() == Some(Impatience::BlameForHold) {
            return self.waits();
        }
        self.waits() && !self.holds()
    }
}
