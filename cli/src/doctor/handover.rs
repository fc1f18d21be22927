//! How long a value takes from one core to another.
//!
//! Cores that share a cache hand a line over in some tens of nanoseconds; from one cache to another on the same chip it takes a
//! few times as long, and a virtual machine's cores may be here now and there in a minute. What one worker leaves for
//! another costs that line by line.

use crate::pin;
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Instant,
};

/// Times that a value goes there and back while it is timed, and how often it is timed.
const TRIPS: u32 = 10_000;
const TIMES: usize = 9;

/// Nanoseconds there and back between the first two cores, the median of some times. `None` if there is no second core, or
/// where threads have no cores of their own.
pub(super) fn round_trip() -> Option<f64> {
    let [one, other] = pin::cores().ok()?.get(..2)?.try_into().ok().map(|cores: [_; 2]| cores.map(|core| core.id))?;
    let mut times = [0.0; TIMES];
    for time in &mut times {
        *time = between(one, other)?;
    }
    times.sort_by(f64::total_cmp);
    Some(times[TIMES / 2])
}

fn between(one: usize, other: usize) -> Option<f64> {
    // Even: it is on its way there. A thread that cannot go to its place says so.
    let (ball, lost) = (Line(AtomicU32::new(0)), Line(AtomicU32::new(0)));
    let place = |core: usize| {
        let placed = pin::here(core).is_ok();
        lost.0.fetch_add(u32::from(!placed), Ordering::AcqRel);
        placed
    };
    let wait_for = |value: u32| {
        while ball.0.load(Ordering::Acquire) != value {
            if lost.0.load(Ordering::Relaxed) != 0 {
                return false;
            }
            core::hint::spin_loop();
        }
        true
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if place(other) {
                let _ = (0..TRIPS).all(|trip| {
                    let caught = wait_for(2 * trip + 1);
                    ball.0.store(2 * trip + 2, Ordering::Release);
                    caught
                });
            }
        });
        let timed = scope.spawn(|| {
            if !place(one) {
                return None;
            }
            let mut start = Instant::now();
            for trip in 0..TRIPS {
                ball.0.store(2 * trip + 1, Ordering::Release);
                if !wait_for(2 * trip + 2) {
                    return None;
                }
                // The first one waits for the other thread to begin.
                if trip == 0 {
                    start = Instant::now();
                }
            }
            Some(start.elapsed().as_secs_f64() * 1e9 / f64::from(TRIPS - 1))
        });
        timed.join().ok().flatten()
    })
}

/// A word that shares its cache line, and the one beside it, with no other.
#[repr(align(128))]
struct Line(AtomicU32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_takes_a_while() {
        let Some(cores) = pin::cores().ok().filter(|cores| cores.len() > 1) else { return };
        assert!(between(cores[0].id, 1_000).is_none(), "there is no such core");
        let nanos = round_trip().expect("two cores");
        assert!(nanos > 1.0, "{nanos}");
    }
}
