//! Processor time per stage.
//!
//! A thread drives a block through its stages, which run on it and on the engine's workers: a stage's time is what these
//! threads' clocks gained. Persisting has its own thread, and RocksDB's threads serve only it, so persisting is charged with
//! the process's time outside the watched threads, but for threads that read a state on disk ahead, whose clocks are read apart. A
//! thread that reads for a run of Block-STM lives as long as the run, and its time is added to the watched threads' when it ends.
//!
//! Where planning overlaps the execution of the block before, or sealing overlaps the root, the overlapping stage is charged
//! with its own thread's time, and the stage beside it with the rest. Work that other workers contribute to it is counted
//! with their own stage.
//!
//! Reading a thread's clock is a system call, and a small block has more stages than transactions. So only some small blocks
//! are timed, each on behalf of the blocks since the last timed one. Work of the planner for thousands of transactions is
//! always timed, and counts once.

mod sample;

use parking_lot::Mutex;
use phalanx::{Observer, Stage, parascheduler::Workers};
use sample::Sample;
use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

/// Adds up processor time per stage while a block runs.
#[derive(Debug, Default)]
pub struct StageClock {
    /// Clocks of the driving thread and the workers.
    threads: std::sync::OnceLock<Vec<(String, libc::clockid_t)>>,
    /// Nanoseconds in timed blocks, on behalf of the others too.
    spent: [AtomicU64; Stage::ALL.len()],
    /// Nanoseconds of work that is always timed.
    whole: [AtomicU64; Stage::ALL.len()],
    /// True if stages overlap.
    overlaps: AtomicBool,
    /// True if the stages of this block are not timed.
    rests: AtomicBool,
    /// True if the next block's plan needs no further transactions.
    stocked: AtomicBool,
    sample: Mutex<Sample>,
    open: Mutex<Open>,
}

/// Stages in flight.
#[derive(Debug)]
struct Open {
    /// Number of times that the block counts.
    times: f64,
    /// Nanoseconds of the watched threads when the main stage began.
    entered: u64,
    /// Stages that overlap the main one.
    aside: Vec<Aside>,
    /// Nanoseconds of all overlapping stages that have ended.
    spent_aside: u64,
}

/// A stage that overlaps another one.
#[derive(Debug)]
struct Aside {
    stage: Stage,
    /// Clock of its thread, read when the stage began.
    clock: libc::clockid_t,
    entered: u64,
    /// Nanoseconds of stages that its thread entered in between, while it waited for others.
    inner: u64,
}

impl Aside {
    fn gained(&self) -> u64 {
        read(self.clock).saturating_sub(self.entered).saturating_sub(self.inner)
    }
}

impl Default for Open {
    fn default() -> Self {
        Self { times: 1.0, entered: 0, aside: Vec::new(), spent_aside: 0 }
    }
}

impl Open {
    /// Nanoseconds of overlapping stages up to now.
    fn aside(&self) -> u64 {
        // An inner stage is part of its thread's outer one until it ends.
        let outer = |at: usize| self.aside[..at].iter().all(|earlier| earlier.clock != self.aside[at].clock);
        let open = (0..self.aside.len()).filter(|at| outer(*at)).map(|at| self.aside[at].gained());
        self.spent_aside + open.sum::<u64>()
    }

    /// Ends an overlapping stage, and returns its nanoseconds.
    fn leave(&mut self, stage: Stage) -> u64 {
        let Some(at) = self.aside.iter().rposition(|aside| aside.stage == stage) else { return 0 };
        let left = self.aside.remove(at);
        let gained = left.gained();
        for outer in self.aside.iter_mut().filter(|outer| outer.clock == left.clock) {
            outer.inner += gained;
        }
        self.spent_aside += gained;
        gained
    }
}

const fn index(stage: Stage) -> usize {
    stage as usize
}

impl StageClock {
    /// A clock that watches no threads yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Starts to watch the calling thread and all workers of the process.
    pub(crate) fn watch_threads<'w>(&self, all: impl IntoIterator<Item = &'w Workers>) {
        // Each worker tells its own clock: a name would not do, as threads that a store starts on a worker inherit it.
        let clocks = |workers: &'w Workers| workers.install(|| rayon::broadcast(|_| own_clock()));
        let _ = self.threads.set(watched_threads(all.into_iter().flat_map(clocks)));
    }

    /// Sets whether planning overlaps execution, and sealing the root.
    pub(crate) fn overlap(&self, overlaps: bool) {
        self.overlaps.store(overlaps, Relaxed);
    }

    /// Begins a block of `txs` transactions, outside all stages. `stocked` is true if the planner needs no further transactions
    /// for the next block. Without a call every block is timed.
    pub(crate) fn begin_block(&self, txs: usize, stocked: bool) {
        self.stocked.store(stocked, Relaxed);
        let times = self.sample.lock().next(txs as u64);
        self.rests.store(times.is_none(), Relaxed);
        self.open.lock().times = times.unwrap_or(1.0);
    }

    /// Number of blocks whose stages were timed.
    pub(crate) fn timed_blocks(&self) -> u64 {
        self.sample.lock().timed()
    }

    /// True if a stage does work for more than this block.
    fn is_whole(&self, stage: Stage) -> bool {
        match stage {
            Stage::Recover => true,
            Stage::Analyse | Stage::Frame => !self.stocked.load(Relaxed),
            _ => false,
        }
    }

    fn hears(&self, stage: Stage) -> bool {
        stage != Stage::Persist && (!self.rests.load(Relaxed) || self.is_whole(stage))
    }

    fn is_aside(&self, stage: Stage) -> bool {
        (stage.is_planning() || stage == Stage::Seal) && self.overlaps.load(Relaxed)
    }

    /// Resets all sums, before the first block.
    pub(crate) fn reset(&self) {
        self.spent.iter().chain(&self.whole).for_each(|spent| spent.store(0, Relaxed));
    }

    /// Nanoseconds per stage.
    pub(crate) fn spent(&self) -> [u64; Stage::ALL.len()] {
        let scale = self.sample.lock().scale();
        core::array::from_fn(|i| self.whole[i].load(Relaxed) + (self.spent[i].load(Relaxed) as f64 * scale) as u64)
    }

    /// Nanoseconds of the threads that work on stages. A driver inside a worker sleeps, so its clock is not read: each system
    /// call shows in small blocks.
    fn working(&self) -> u64 {
        let asleep = usize::from(cfg!(target_os = "linux") && rayon::current_thread_index().is_some());
        self.threads
            .get()
            .map_or(0, |threads| threads.iter().skip(asleep).map(|(_, id)| read(*id)).sum::<u64>() + ended())
    }

    /// Nanoseconds of all watched threads.
    pub(crate) fn watched(&self) -> u64 {
        self.threads.get().map_or(0, |threads| threads.iter().map(|(_, id)| read(*id)).sum::<u64>() + ended())
    }

    /// Name and nanoseconds of each worker.
    pub(crate) fn workers(&self) -> Vec<(String, u64)> {
        let workers = self.threads.get().map_or(&[][..], |threads| threads.get(1..).unwrap_or_default());
        workers.iter().map(|(name, id)| (name.clone(), read(*id))).collect()
    }

    /// Stage with the most time so far, and its share.
    pub(crate) fn bottleneck(&self) -> Option<(&'static str, f64)> {
        let spent = self.spent();
        let total: u64 = spent.iter().sum();
        let (stage, most) = Stage::ALL.iter().zip(spent).max_by_key(|(_, spent)| *spent)?;
        (total > 0).then(|| (stage.name(), most as f64 / total as f64))
    }
}

impl Observer for StageClock {
    fn enter(&self, stage: Stage) {
        if !self.hears(stage) {
            return;
        }
        let mut open = self.open.lock();
        if self.is_aside(stage) {
            let clock = own_clock();
            open.aside.push(Aside { stage, clock, entered: read(clock), inner: 0 });
        } else {
            open.entered = self.working().saturating_sub(open.aside());
        }
    }

    fn leave(&self, stage: Stage) {
        if !self.hears(stage) {
            return;
        }
        let mut open = self.open.lock();
        let gained = if self.is_aside(stage) {
            open.leave(stage)
        } else {
            self.working().saturating_sub(open.aside()).saturating_sub(open.entered)
        };
        if self.is_whole(stage) {
            self.whole[index(stage)].fetch_add(gained, Relaxed);
        } else {
            self.spent[index(stage)].fetch_add((gained as f64 * open.times) as u64, Relaxed);
        }
    }
}

/// Nanoseconds of all ended threads that read for a run of Block-STM.
static READERS: AtomicU64 = AtomicU64::new(0);

/// [`READERS`], where the process's clock does not include them.
fn ended() -> u64 {
    if cfg!(target_os = "linux") { READERS.load(Relaxed) } else { 0 }
}

/// Clocks of all threads that read ahead, and the nanoseconds of those that have ended.
static AHEAD: Mutex<(Vec<libc::clockid_t>, u64)> = Mutex::new((Vec::new(), 0));

/// Nanoseconds of all threads that read ahead. Where threads cannot read each other's clocks, of those that have ended.
pub(crate) fn read_ahead() -> u64 {
    let (clocks, ended) = &*AHEAD.lock();
    let live = clocks.iter().filter(|_| cfg!(target_os = "linux"));
    live.map(|clock| read(*clock)).sum::<u64>() + ended
}

/// A thread that reads ahead, until it ends.
struct ReadsAhead(libc::clockid_t);

impl ReadsAhead {
    fn start() -> Self {
        let clock = own_clock();
        AHEAD.lock().0.push(clock);
        Self(clock)
    }
}

impl Drop for ReadsAhead {
    fn drop(&mut self) {
        let (clocks, ended) = &mut *AHEAD.lock();
        if let Some(at) = clocks.iter().position(|clock| *clock == self.0) {
            clocks.swap_remove(at);
        }
        *ended += thread();
    }
}

/// Watches the calling thread, which starts, if it reads for a run of Block-STM or ahead of blocks.
pub(crate) fn thread_starts() {
    /// Counts its thread when that ends.
    struct Counted;

    impl Drop for Counted {
        fn drop(&mut self) {
            READERS.fetch_add(thread(), Relaxed);
        }
    }

    std::thread_local! {
        static COUNTED: Cell<Option<Counted>> = const { Cell::new(None) };
        static AHEAD: Cell<Option<ReadsAhead>> = const { Cell::new(None) };
    }
    match std::thread::current().name() {
        Some("phalanx-stm-read") => COUNTED.set(Some(Counted)),
        Some(name) if name.starts_with("phalanx-ahead-") => AHEAD.set(Some(ReadsAhead::start())),
        _ => {}
    }
}

/// Processor time of the whole process, user and system, in nanoseconds.
pub fn process() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor time of this thread, in nanoseconds.
pub(crate) fn thread() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
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

/// The clock of this thread, for others to read.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "libc")]
fn own_clock() -> libc::clockid_t {
    std::thread_local! {
        // SAFETY: takes nothing and cannot fail.
        static OWN: libc::clockid_t = clock_of(unsafe { libc::gettid() });
    }
    OWN.with(|clock| *clock)
}

/// Elsewhere other threads cannot read this clock, and planning is not counted until it ends.
#[cfg(not(target_os = "linux"))]
const fn own_clock() -> libc::clockid_t {
    libc::CLOCK_THREAD_CPUTIME_ID
}

#[cfg(target_os = "linux")]
fn watched_threads(workers: impl Iterator<Item = libc::clockid_t>) -> Vec<(String, libc::clockid_t)> {
    let workers = workers.enumerate().map(|(index, clock)| (format!("phalanx-worker-{index}"), clock));
    [("driver".to_owned(), own_clock())].into_iter().chain(workers).collect()
}

/// Elsewhere the process's clock stands for its threads, so stages include concurrent writes.
#[cfg(not(target_os = "linux"))]
fn watched_threads(_: impl Iterator<Item = libc::clockid_t>) -> Vec<(String, libc::clockid_t)> {
    vec![("process".to_owned(), libc::CLOCK_PROCESS_CPUTIME_ID)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_reads_for_a_run_counts_when_it_ends() {
        let clock = StageClock::new();
        clock.watch_threads([]);
        let spend = |name: &str| {
            let before = clock.watched();
            let named = std::thread::Builder::new().name(name.into());
            let thread = named.spawn(|| {
                thread_starts();
                while thread() < 30_000_000 {
                    std::hint::spin_loop();
                }
            });
            thread.expect("a thread").join().expect("no panic");
            clock.watched() - before
        };
        assert!(spend("phalanx-stm-read") >= 30_000_000);
        assert!(spend("another") < 30_000_000);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_reads_ahead_counts_while_it_lives_and_when_it_has_ended() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let before = read_ahead();
        let named = std::thread::Builder::new().name("phalanx-ahead-0".into());
        let thread = named.spawn(move || {
            thread_starts();
            while thread() < 30_000_000 {
                std::hint::spin_loop();
            }
            tell.send(()).unwrap();
            let _ = ended.recv();
        });
        told.recv().unwrap();
        assert!(read_ahead() - before >= 30_000_000, "alive");
        drop(end);
        thread.expect("a thread").join().expect("no panic");
        assert!(read_ahead() - before >= 30_000_000, "ended");
    }

    #[test]
    fn untimed_blocks_are_extrapolated_and_shared_work_is_not() {
        let (clock, workers) = (StageClock::new(), Workers::new(1).unwrap());
        clock.watch_threads([&workers]);
        let spend = |stage| {
            clock.enter(stage);
            let mut x = 1u64;
            (0..2_000_000u64).for_each(|i| x = core::hint::black_box(x.wrapping_mul(i | 1)));
            clock.leave(stage);
        };
        let of = |stage| clock.spent()[index(stage)];
        (0..64).for_each(|_| clock.begin_block(1, true));
        for at in 1..=64 {
            clock.begin_block(1, at != 5);
            spend(Stage::Merkle);
            spend(Stage::Frame);
            if at == 5 {
                assert!(of(Stage::Merkle) == 0 && of(Stage::Frame) > 0, "it was not for this block alone");
            }
        }
        assert_eq!(clock.timed_blocks(), 65);
        let (merkle, frame) = (of(Stage::Merkle), of(Stage::Frame));
        assert!(merkle > 64 * 100_000, "64 times one block: {merkle} ns");
        assert!(frame > 64 * 100_000, "64 times one block, and the shared work: {frame} ns");
        (0..32).for_each(|_| clock.begin_block(1, true));
        assert!(of(Stage::Merkle) > merkle, "the last blocks count as well");
        clock.enter(Stage::Recover);
        clock.leave(Stage::Recover);
        assert!(of(Stage::Recover) < merkle / 64, "once");
    }

    #[test]
    fn work_is_charged_to_the_stage_it_was_done_in() {
        let (clock, workers) = (StageClock::new(), Workers::new(1).unwrap());
        clock.watch_threads([&workers]);
        assert!(clock.bottleneck().is_none());
        let mut x = 1u64;
        // The system counts processor time in ticks, and late on a loaded machine.
        let spend = |x: &mut u64| {
            clock.enter(Stage::Seal);
            (0..20_000_000u64).for_each(|i| *x = core::hint::black_box(x.wrapping_mul(i | 1)));
            clock.leave(Stage::Seal);
            clock.spent()[index(Stage::Seal)] > 0
        };
        assert!((0..20).any(|_| spend(&mut x)));
        let spent = clock.spent();
        assert_eq!(spent.iter().filter(|s| **s > 0).count(), 1);
        assert_eq!(clock.bottleneck().map(|(stage, _)| stage), Some("seal"));
        clock.reset();
        assert_eq!(clock.spent(), [0; Stage::ALL.len()]);
        // On a worker, whose driver sleeps.
        let mut spend = || {
            workers.install(|| {
                clock.enter(Stage::Merkle);
                (0..20_000_000u64).for_each(|i| x = core::hint::black_box(x.wrapping_mul(i | 1)));
                clock.leave(Stage::Merkle);
            });
            clock.spent()[index(Stage::Merkle)] > 0
        };
        assert!((0..20).any(|_| spend()));
    }
}
