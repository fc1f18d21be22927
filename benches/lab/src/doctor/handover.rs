//! Round trip of a value between two cores.
//!
//! Cores that share a cache hand a line over in some tens of nanoseconds; between caches of one chip it takes a few times as
//! long. A virtual machine's cores may move between caches. Workers that share data pay this per cache line.

use crate::machine::pin;
use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread::Builder,
    time::{Duration, Instant},
};

/// Round trips per measurement, and number of measurements.
const TRIPS: u32 = 10_000;
const TIMES: usize = 9;

/// Time limit of a measurement, some hundred times its usual length: threads that share a core switch every few
/// milliseconds.
const PATIENCE: Duration = Duration::from_millis(200);

/// Spins of a waiting thread between two readings of the clock.
const SPINS: u32 = 1 << 12;

/// Median round trip between the first two cores in thread order, in nanoseconds. `None` without a second core, or where
/// threads cannot be pinned.
pub(super) fn round_trip() -> Option<f64> {
    let cores = pin::order().ok()?;
    let mut times = [0.0; TIMES];
    for time in &mut times {
        *time = between(*cores.first()?, *cores.get(1)?)?;
    }
    times.sort_by(f64::total_cmp);
    Some(times[TIMES / 2])
}

fn between(one: usize, other: usize) -> Option<f64> {
    let court = Court { ball: AtomicU32::new(0), lost: AtomicBool::new(false), end: Instant::now() + PATIENCE };
    let thread = || Builder::new().name("phalanx-handover".into());
    std::thread::scope(|scope| {
        let played = thread().spawn_scoped(scope, || court.play(other, 1));
        let timed = thread().spawn_scoped(scope, || court.play(one, 0));
        court.lose_unless(played.is_ok() && timed.is_ok());
        let seconds = timed.ok()?.join().ok().flatten()?;
        Some(seconds * 1e9 / f64::from(TRIPS - 1))
    })
}

/// State that two threads pass a value through.
#[repr(align(128))]
struct Court {
    /// The value: even for the thread that begins.
    ball: AtomicU32,
    /// True if a thread cannot take part.
    lost: AtomicBool,
    end: Instant,
}

impl Court {
    fn lose_unless(&self, well: bool) {
        if !well {
            self.lost.store(true, Ordering::Release);
        }
    }

    /// Returns the value from a core `TRIPS` times; parity 0 begins, parity 1 answers.
    ///
    /// Gives the seconds from the second trip on: at the first, the other thread may not have started.
    fn play(&self, core: usize, parity: u32) -> Option<f64> {
        if pin::here(core).is_err() {
            self.lose_unless(false);
            return None;
        }
        let mut start = Instant::now();
        for trip in 0..TRIPS {
            if !self.wait_for(2 * trip + parity) {
                self.lose_unless(false);
                return None;
            }
            self.ball.store(2 * trip + parity + 1, Ordering::Release);
            if trip == 0 {
                start = Instant::now();
            }
        }
        Some(start.elapsed().as_secs_f64())
    }

    fn wait_for(&self, value: u32) -> bool {
        for spin in 1u32.. {
            if self.ball.load(Ordering::Acquire) == value {
                return true;
            }
            if spin.is_multiple_of(SPINS) && (self.lost.load(Ordering::Acquire) || Instant::now() > self.end) {
                return false;
            }
            core::hint::spin_loop();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    //! No test here pins a thread: other tests of this process check the cores of its threads.

    use super::*;

    #[test]
    fn no_core_no_time() {
        assert_eq!(between(1_000, 1_001), None);
    }

    #[test]
    fn waiting_ends_at_the_time_limit() {
        let court = Court { ball: AtomicU32::new(7), lost: AtomicBool::new(false), end: Instant::now() };
        assert!(court.wait_for(7) && !court.wait_for(8));
        court.lose_unless(false);
        assert!(!court.wait_for(8));
    }
}
