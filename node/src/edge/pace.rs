//! Deadline of a transfer, from what has moved so far. Time is passed in.

use std::time::{Duration, Instant};

/// Least speed of a transfer: it never stands still for `patience`, and is no slower than `rate` behind that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Time for which nothing may move, and start of every transfer.
    pub(crate) patience: Duration,
    /// Average speed behind the start, in bytes per second. Not zero.
    pub(crate) rate: u64,
}

/// A message in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    begun: Instant,
    last: Instant,
    moved: u64,
}

impl Transfer {
    pub(crate) const fn begin(now: Instant) -> Self {
        Self { begun: now, last: now, moved: 0 }
    }

    pub(crate) const fn advance(&mut self, bytes: usize, now: Instant) {
        self.moved = self.moved.saturating_add(bytes as u64);
        self.last = now;
    }

    /// Time at which the transfer is too slow, unless something moves before.
    pub(crate) fn deadline(&self, pace: Pace) -> Instant {
        let earned = Duration::from_secs(self.moved / pace.rate);
        (self.begun + pace.patience + earned).min(self.last + pace.patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { patience: Duration::from_secs(20), rate: 1_000 };

    fn at(begun: Instant, seconds: u64) -> Instant {
        begun + Duration::from_secs(seconds)
    }

    #[test]
    fn a_transfer_that_stands_still_ends_behind_its_patience() {
        let begun = Instant::now();
        let mut transfer = Transfer::begin(begun);
        assert_eq!(transfer.deadline(PACE), at(begun, 20));
        // Much moves at once, and nothing behind it.
        transfer.advance(1_000_000_000, at(begun, 1));
        assert_eq!(transfer.deadline(PACE), at(begun, 21));
    }

    #[test]
    fn a_transfer_of_single_bytes_ends_though_it_never_stands_still() {
        let begun = Instant::now();
        let mut transfer = Transfer::begin(begun);
        for second in 1..20 {
            transfer.advance(1, at(begun, second));
            assert_eq!(transfer.deadline(PACE), at(begun, 20));
        }
    }

    #[test]
    fn a_transfer_at_its_least_speed_goes_on() {
        let begun = Instant::now();
        let mut transfer = Transfer::begin(begun);
        for second in 1..1_000 {
            transfer.advance(1_000, at(begun, second));
            assert_eq!(transfer.deadline(PACE), at(begun, second + 20));
        }
    }
}
