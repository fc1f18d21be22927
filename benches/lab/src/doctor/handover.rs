//! How long a value takes from one core to another.
//!
//! Cores that share a cache hand a line over in some tens of nanoseconds; from one cache to another on the same chip it takes a
//! few times as long, and a virtual machine's cores may be here now and there in a minute. What one worker leaves for
//! another costs that line by line.

use crate::machine::pin;
use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread::Builder,
    time::{Duration, Instant},
};

/// Times that a value goes there and back while it is timed, and how often it is timed.
const TRIPS: u32 = 10_000;
const TIMES: usize = 9;

/// What all trips of one time may take, some hundred times what they do. Two threads that share a core after all take turns
/// of milliseconds.
const PATIENCE: Duration = Duration::from_millis(200);

/// Turns of a waiting thread between two looks at the clock.
const SPINS: u32 = 1 << 12;

/// Nanoseconds there and back between the first two cores that threads get, the median of some times. `None` if there is no
/// second core, or where threads have no cores of their own.
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

/// What two threads pass a value on.
#[repr(align(128))]
struct Court {
    /// Even for the one that begins.
    ball: AtomicU32,
    /// Whether one of them cannot play.
    lost: AtomicBool,
    end: Instant,
}

impl Court {
    fn lose_unless(&self, well: bool) {
        if !well {
            self.lost.store(true, Ordering::Release);
        }
    }

    /// Sends the value from a core as often as it comes there, as the one that begins or the one that answers. Gives the
    /// seconds from the second time on: at the first, the other thread may not have been there.
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
    //! Nobody here takes a place: other tests of this process look where its threads are.

    use super::*;

    #[test]
    fn no_core_no_time() {
        assert_eq!(between(1_000, 1_001), None);
    }

    #[test]
    fn nobody_waits_for_ever() {
        let court = Court { ball: AtomicU32::new(7), lost: AtomicBool::new(false), end: Instant::now() };
        assert!(court.wait_for(7) && !court.wait_for(8));
        court.lose_unless(false);
        assert!(!court.wait_for(8));
    }
}
