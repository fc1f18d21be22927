//! The threads, and a run of a graph on them. `inline.rs` is a run on one thread, `worker.rs` one of several workers.

use crate::{
    countdown::{Countdown, Ready},
    cursor::Cursor,
    dag::Dag,
    idle::Idle,
    inline,
    job::{Job, Report},
    prefetch::Graph,
    shuffled,
    worker::{Shared, Worker},
};
use crossbeam_deque::{Stealer, Worker as Deque};
use phalanx_memory::{BufferPool, Reuse};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::{
    borrow::BorrowMut,
    cell::Cell,
    io,
    sync::{Arc, Weak},
    thread::{self, JoinHandle},
};

/// A fixed set of threads, from [`Workers::new`] until it is dropped, which joins them.
///
/// The threads are a rayon pool's, so that one set serves both runs of a DAG and data-parallel stages.
#[derive(Debug)]
pub struct Workers {
    pool: Arc<ThreadPool>,
    /// Dropped after the pool, whose drop tells the threads to end.
    _joined: JoinOnDrop,
    /// Buffers of finished runs. A run that panics does not return its buffers.
    states: BufferPool<RunState>,
}

/// A handle to the threads that does not keep their [`Workers`] alive.
#[derive(Clone, Debug, Default)]
pub struct WeakWorkers(Weak<ThreadPool>);

impl WeakWorkers {
    /// Calls a closure once on every thread, with the thread's number, and does not wait for it.
    ///
    /// `op` gets the number of threads and returns the closure, or [`None`]; it is not called if the threads have ended. A
    /// thread calls the closure when it next looks for work, at the latest before it ends. A panic of the closure ends the
    /// process.
    pub fn call_all<O: Fn(usize) + Send + Sync + 'static>(&self, op: impl FnOnce(usize) -> Option<O>) {
        // Only the pool is held meanwhile: a drop of the workers waits for the threads, wherever this is called.
        if let Some(pool) = self.0.upgrade()
            && let Some(op) = op(pool.current_num_threads())
        {
            pool.spawn_broadcast(move |thread| op(thread.index()));
        }
    }
}

/// Threads that are joined when this is dropped. Rayon tells its threads to end and does not wait for them.
#[derive(Debug, Default)]
struct JoinOnDrop(Vec<JoinHandle<()>>);

impl Drop for JoinOnDrop {
    fn drop(&mut self) {
        for handle in self.0.drain(..) {
            // A job may own the last handle to the workers; then one of the threads is this one. Rayon has carried every
            // panic to its caller already.
            if handle.thread().id() != thread::current().id() {
                let _ = handle.join();
            }
        }
    }
}

/// Buffers of one run.
#[derive(Debug, Default)]
struct RunState {
    countdown: Countdown,
    cursor: Cursor,
    idle: Idle,
    deques: Vec<Deque<Ready>>,
    stealers: Vec<Stealer<Ready>>,
    reports: Vec<Report>,
}

/// Number of worker threads that any machine may start, so that a small one can try out a large one's.
const THREADS_ANYWHERE: usize = 256;
/// Number of worker threads per core. Threads that find no core spin while others work: beyond this nothing but they run.
const THREADS_PER_CORE: usize = 16;

/// Maximum number of worker threads on this machine: 16 per core, and 256 on small machines.
pub fn max_threads() -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    cores.saturating_mul(THREADS_PER_CORE).max(THREADS_ANYWHERE)
}

impl Workers {
    /// Starts `threads` threads, at least one.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for more than [`max_threads`]. If the system cannot start the threads.
    pub fn new(threads: usize) -> io::Result<Self> {
        let most = max_threads();
        if threads > most {
            let why = format!("at most {most} are possible on this machine, {THREADS_PER_CORE} per core");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut joined = JoinOnDrop::default();
        let pool = ThreadPoolBuilder::new()
            // With zero rayon would read the environment.
            .num_threads(threads.max(1))
            .spawn_handler(|worker| {
                let named = thread::Builder::new().name(format!("phalanx-worker-{}", worker.index()));
                joined.0.push(named.spawn(|| worker.run())?);
                Ok(())
            })
            .build()
            .map_err(io::Error::other)?;
        Ok(Self { pool: Arc::new(pool), _joined: joined, states: BufferPool::default() })
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs `op` on one of the threads; rayon's parallel iterators and joins in it use all of them. A panic reaches the
    /// caller.
    pub fn install<R: Send>(&self, op: impl FnOnce() -> R + Send) -> R {
        self.pool.install(op)
    }

    /// Returns a handle for values that may outlive the threads.
    pub fn downgrade(&self) -> WeakWorkers {
        WeakWorkers(Arc::downgrade(&self.pool))
    }

    /// Runs `job` once for every transaction of `dag` that is not withdrawn, each after its predecessors. O(nodes + edges).
    ///
    /// Worker *i* gets `locals[i]`, and there are as many workers as locals, at most [`Self::threads`]. A single worker
    /// is the calling thread, in block order. If the caller is a thread of the pool, it is one of the workers. The other
    /// threads join when they have no other work, and the run needs none of them. A job that calls this has a run of its own,
    /// on its thread. Several runs may be in flight at once.
    ///
    /// # Panics
    /// With the job's panic: then other transactions may or may not have run, and the workers stay usable. If `locals` is
    /// empty and `dag` is not.
    pub fn run<L: Send, J: Job<L> + ?Sized>(&self, dag: &Dag, locals: &mut [L], job: &J) -> Report {
        if dag.is_empty() {
            return Report::default();
        }
        let count = locals.len().min(self.threads());
        assert!(count != 0, "at least one worker needs a local");
        if count == 1 || Seat::is_taken() {
            return inline::run(dag, &mut locals[0], job);
        }
        self.run_on(&mut self.states.take(), dag, locals[..count].iter_mut(), |local| local, job)
    }

    /// Runs like [`Self::run`] on all threads, with a local that each worker makes on its own thread. So it need not be
    /// [`Send`], as an EVM is not.
    ///
    /// # Panics
    /// With the job's panic, or with that of `local`.
    pub fn run_with<L, J: Job<L> + ?Sized>(&self, dag: &Dag, local: impl Fn() -> L + Sync, job: &J) -> Report {
        if dag.is_empty() {
            return Report::default();
        }
        let count = self.threads();
        if count == 1 || Seat::is_taken() {
            return inline::run(dag, &mut local(), job);
        }
        self.run_on(&mut self.states.take(), dag, 0..count, |_| local(), job)
    }

    /// Runs like [`Self::run`], on the calling thread in an order that `seed` draws among all that the DAG permits. For tests,
    /// and to repeat what one of them showed. O(nodes + edges).
    ///
    /// # Panics
    /// With the job's panic. If `locals` is empty and `dag` is not.
    pub fn run_shuffled<L, J: Job<L> + ?Sized>(&self, dag: &Dag, locals: &mut [L], job: &J, seed: u64) -> Report {
        if dag.is_empty() {
            return Report::default();
        }
        assert!(!locals.is_empty(), "at least one worker needs a local");
        shuffled::run(dag, locals, job, seed)
    }

    /// Runs with one worker per seat; `local` makes a seat its local, on the worker's thread.
    fn run_on<L, S: Send, H: BorrowMut<L>, J: Job<L> + ?Sized>(
        &self,
        state: &mut RunState,
        dag: &Dag,
        seats: impl ExactSizeIterator<Item = S> + Send,
        local: impl Fn(S) -> H + Sync,
        job: &J,
    ) -> Report {
        state.reset(dag, seats.len());
        let RunState { countdown, cursor, idle, deques, stealers, reports } = state;
        let shared = Shared { graph: Graph { dag, job, countdown }, cursor, idle, stealers };
        let seats = seats.zip(deques).zip(reports.iter_mut());
        self.seat_all(seats, |index, ((seat, deque), report)| {
            Worker::new(&shared, index, local(seat).borrow_mut(), deque, report).run();
        });
        Report::collect(reports.iter_mut())
    }

    /// Calls `work` once for each seat, on a thread of the pool; on the calling thread for the first, if that is of the pool.
    ///
    /// A worker never needs another one to have arrived: a late one finds what is left, or nothing. No job waits for a task of
    /// the pool, so a thread may take a seat wherever it waits itself. If it waited inside a job, the run would not end before
    /// the job, nor the job before the run.
    pub(crate) fn seat_all<S: Send>(&self, seats: impl Iterator<Item = S> + Send, work: impl Fn(usize, S) + Sync) {
        let mut seats = seats.enumerate();
        let work = &work;
        self.pool.scope(|scope| {
            let first = seats.next();
            for (index, seat) in seats {
                scope.spawn(move |_| {
                    let _seat = Seat::take();
                    work(index, seat);
                });
            }
            if let Some((index, seat)) = first {
                let _seat = Seat::take();
                work(index, seat);
            }
        });
    }
}

/// Marks a thread as a worker of a run, until it is dropped.
pub(crate) struct Seat {
    /// True if the thread was a worker of another run before.
    before: bool,
}

impl Seat {
    thread_local! {
        static IS_TAKEN: Cell<bool> = const { Cell::new(false) };
    }

    /// Returns true if the calling thread is a worker of a run.
    pub(crate) fn is_taken() -> bool {
        Self::IS_TAKEN.get()
    }

    fn take() -> Self {
        Self { before: Self::IS_TAKEN.replace(true) }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        Self::IS_TAKEN.set(self.before);
    }
}

impl Reuse for RunState {
    /// Does nothing: [`RunState::reset`] prepares a run.
    fn clear(&mut self) {}
}

impl RunState {
    fn reset(&mut self, dag: &Dag, workers: usize) {
        self.countdown.reset(dag.indegrees());
        self.cursor.reset(dag.sources().len(), workers, dag.ranked);
        self.idle.reset(dag.len());
        self.deques.resize_with(workers, Deque::new_lifo);
        self.stealers.clear();
        self.stealers.extend(self.deques.iter().map(Deque::stealer));
        self.reports.resize_with(workers, Report::default);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_a_machine_runs_are_refused_before_one_starts() {
        assert!(max_threads() >= THREADS_ANYWHERE);
        for threads in [max_threads() + 1, usize::MAX] {
            let error = Workers::new(threads).expect_err("too many");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&max_threads().to_string()), "{error}");
        }
    }
}
