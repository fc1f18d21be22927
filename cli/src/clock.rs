//! Processor time per stage.
//!
//! The stages that a block passes one after the other are driven by one thread and run on it and the engine's workers:
//! their time is what those threads' clocks gained. Persisting has a thread of its own, and RocksDB's threads serve only
//! it: persisting is charged with whatever the process spent outside the threads above.

use phalanx::{Observer, Stage};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Adds up processor time per stage while it is running.
#[derive(Debug, Default)]
pub(crate) struct StageClock {
    /// Clocks of the driving thread and the workers.
    threads: std::sync::OnceLock<Vec<libc::clockid_t>>,
    entered: AtomicU64,
    spent: [AtomicU64; Stage::ALL.len()],
}

const fn index(stage: Stage) -> usize {
    stage as usize
}

impl StageClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Starts watching the calling thread and the workers that exist now.
    pub(crate) fn watch_threads(&self) {
        let _ = self.threads.set(watched_threads());
    }

    /// Forgets what was spent so far.
    pub(crate) fn reset(&self) {
        self.spent.iter().for_each(|spent| spent.store(0, Relaxed));
    }

    /// Nanoseconds per stage.
    pub(crate) fn spent(&self) -> [u64; Stage::ALL.len()] {
        core::array::from_fn(|i| self.spent[i].load(Relaxed))
    }

    /// Nanoseconds that the watched threads have spent in all.
    pub(crate) fn watched(&self) -> u64 {
        self.threads.get().map_or(0, |threads| threads.iter().map(|id| read(*id)).sum())
    }

    /// The stage that has taken most so far, and its share.
    pub(crate) fn bottleneck(&self) -> Option<(&'static str, f64)> {
        let spent = self.spent();
        let total: u64 = spent.iter().sum();
        let (stage, most) = Stage::ALL.iter().zip(spent).max_by_key(|(_, spent)| *spent)?;
        (total > 0).then(|| (stage.name(), most as f64 / total as f64))
    }
}

impl Observer for StageClock {
    fn enter(&self, stage: Stage) {
        if stage != Stage::Persist {
            self.entered.store(self.watched(), Relaxed);
        }
    }

    fn leave(&self, stage: Stage) {
        if stage != Stage::Persist {
            let gained = self.watched().saturating_sub(self.entered.load(Relaxed));
            self.spent[index(stage)].fetch_add(gained, Relaxed);
        }
    }
}

/// Processor time of the whole process, user and system, in nanoseconds.
pub(crate) fn process() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

#[expect(unsafe_code, reason = "libc")]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to; a clock of a thread that is gone is an error, not undefined.
    match unsafe { libc::clock_gettime(clock, &raw mut time) } {
        0 => time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        _ => 0,
    }
}

/// The clock of thread `tid`, as Linux numbers them (`CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD_MASK`, man clock_getres(2)).
#[cfg(target_os = "linux")]
const fn clock_of(tid: i32) -> libc::clockid_t {
    (!tid << 3) | 0b110
}

#[cfg(target_os = "linux")]
fn watched_threads() -> Vec<libc::clockid_t> {
    let mut threads = vec![libc::CLOCK_THREAD_CPUTIME_ID];
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return threads };
    for task in tasks.flatten() {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.starts_with("phalanx-worker") {
            threads.extend(task.file_name().to_str().and_then(|tid| tid.parse().ok()).map(clock_of));
        }
    }
    threads
}

/// Elsewhere the process stands for its threads: stages then include what is written meanwhile.
#[cfg(not(target_os = "linux"))]
fn watched_threads() -> Vec<libc::clockid_t> {
    vec![libc::CLOCK_PROCESS_CPUTIME_ID]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_charged_to_the_stage_it_was_done_in() {
        let clock = StageClock::new();
        clock.watch_threads();
        assert!(clock.bottleneck().is_none());
        clock.enter(Stage::Seal);
        let mut x = 1u64;
        for i in 0..20_000_000u64 {
            x = core::hint::black_box(x.wrapping_mul(i | 1));
        }
        clock.leave(Stage::Seal);
        let spent = clock.spent();
        assert!(spent[index(Stage::Seal)] > 0);
        assert_eq!(spent.iter().filter(|s| **s > 0).count(), 1);
        assert_eq!(clock.bottleneck().map(|(stage, _)| stage), Some("seal"));
        clock.reset();
        assert_eq!(clock.spent(), [0; 8]);
    }
}
