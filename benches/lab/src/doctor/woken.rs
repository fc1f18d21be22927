//! Cores that two threads keep busy after they are woken together.
//!
//! A thread that calls a pool, works a little and calls again moves between cores, and so do the threads that it wakes. Some
//! systems leave both threads of a pool on one core after a few such turns, with the other core idle.

use crate::machine::clock;
use phalanx::parascheduler::Workers;
use std::time::{Duration, Instant};

/// Number of pools, each of which may be lucky, and tasks for each.
const POOLS: usize = 6;
const PIECES: usize = 5;

/// Calls of the pool before each task, for which one thread is enough; the caller works after each.
const CALLS: usize = 3;

/// Processor time that each of two threads spends on a task, and the caller between its calls: part of a busy block.
const WORK: Duration = Duration::from_millis(2);

/// Cores that two threads keep busy in the median task of the worst pool, 1 to 2.
///
/// The value is 1 if the second thread is late or on the core of the first. `None` without a second core, or if the system
/// gives no threads or no thread clocks.
pub(super) fn cores(available: usize) -> Option<f64> {
    if available < 2 || clock::thread() == 0 {
        return None;
    }
    (0..POOLS)
        .map(|_| Workers::new(2).ok().map(|workers| busy(&workers)))
        .reduce(|one, other| Some(one?.min(other?)))?
}

fn busy(workers: &Workers) -> f64 {
    let mut busy = [0.0; PIECES].map(|_: f64| {
        for _ in 0..CALLS {
            workers.install(|| core::hint::black_box(()));
            work();
        }
        let start = Instant::now();
        workers.install(|| rayon::join(work, work));
        2.0 * WORK.as_secs_f64() / start.elapsed().as_secs_f64()
    });
    busy.sort_by(f64::total_cmp);
    busy[PIECES / 2]
}

/// Spends [`WORK`] of this thread's processor time.
fn work() {
    let end = clock::thread().saturating_add(WORK.as_nanos() as u64);
    while clock::thread() < end {
        core::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_two_are_busy() {
        assert_eq!(cores(1), None);
        let busy = cores(2).expect("threads");
        // On a busy machine it may be anything below.
        assert!(busy > 0.0 && busy < 2.05, "{busy}");
    }
}
