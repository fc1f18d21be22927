//! Timers of a replica with a primary: which of them run, and the patience that they measure.

use super::{
    complaints::Complaints,
    protocol::{Micros, Out, Outs, Protocol},
};

/// Doublings of the patience at most.
const MOST_DOUBLINGS: u32 = 10;

/// Names of the timers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers<T> {
    /// Half of the patience with a primary is over.
    pub(crate) complain: T,
    /// All of it is over.
    pub(crate) progress: T,
    /// A quorum waits for the primary to open a view.
    pub(crate) new_view: T,
    /// Others may have missed something.
    pub(crate) resend: T,
}

/// Timers that run, and the length of patience.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    /// View changes since the last progress: patience doubles with each.
    pub(crate) attempts: u32,
    pub(crate) complaints: Complaints,
    pub(crate) progress_runs: bool,
    pub(crate) new_view_runs: bool,
    /// `Some(true)` if repetition runs at its full rate.
    pub(crate) resend_runs: Option<bool>,
}

impl Clock {
    /// Patience now, and with the primary before.
    pub(crate) fn patience(&self, timeout: Micros) -> [Micros; 2] {
        [self.attempts, self.attempts.saturating_sub(1)].map(|attempts| timeout << attempts.min(MOST_DOUBLINGS))
    }
}

/// Sets a timer that is wanted and does not run, and cancels one that runs and is not.
pub(crate) fn switch<P: Protocol>(runs: &mut bool, wanted: bool, timer: P::Timer, after: Micros, out: &mut Outs<P>) {
    if wanted && !*runs {
        out.push(Out::Timer(timer, after));
    } else if !wanted && *runs {
        out.push(Out::Cancel(timer));
    }
    *runs = wanted;
}
