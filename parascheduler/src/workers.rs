use crate::{
    Dag, Job, Report,
    countdown::{Countdown, Ready},
    cursor::Cursor,
    idle::Idle,
    inline, shuffled,
    worker::{Shared, Worker},
};
use crossbeam_deque::{Stealer, Worker as Deque};
use parking_lot::Mutex;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::{
    cell::Cell,
    io,
    sync::{Arc, Weak},
    thread::{self, JoinHandle},
};

/// A fixed set of threads that live from [`Workers::new`] until it is dropped, which joins them.
///
/// They are the threads of a rayon pool, so that one set serves both runs of a DAG and data-parallel stages.
#[derive(Debug)]
pub struct Workers {
    pool: Arc<ThreadPool>,
    /// Dropped after the pool, whose drop tells the threads to leave.
    _joined: JoinOnDrop,
    /// Buffers of finished runs. A run takes one and gives it back at its end; one that panics drops it.
    spare: Mutex<Vec<RunState>>,
}

/// Threads that are there as long as their [`Workers`] are.
#[derive(Clone, Debug, Default)]
pub struct WeakWorkers(Weak<ThreadPool>);

impl WeakWorkers {
    /// Has every thread call what `op` gives, once and with its number, when it next looks for work or waits for some, and
    /// does not wait for it. `op` is told how many threads there are, and not asked if there are none any more. What was
    /// asked for is done before the threads end. A panic of what it gives ends the process.
    pub fn call_all<O: Fn(usize) + Send + Sync + 'static>(&self, op: impl FnOnce(usize) -> Option<O>) {
        // Only the pool is held meanwhile: whoever drops the workers waits for the threads, wherever this is called.
        if let Some(pool) = self.0.upgrade()
            && let Some(op) = op(pool.current_num_threads())
        {
            pool.spawn_broadcast(move |thread| op(thread.index()));
        }
    }
}

/// Rayon tells its threads to leave and does not wait for them; this does.
#[derive(Debug, Default)]
struct JoinOnDrop(Vec<JoinHandle<()>>);

impl Drop for JoinOnDrop {
    fn drop(&mut self) {
        for handle in self.0.drain(..) {
            // A job may own the last handle to the workers; then one of them is this thread. Rayon has carried every
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

impl Workers {
    /// Starts `threads` threads, at least one.
    ///
    /// # Errors
    /// If the system does not give the threads.
    pub fn new(threads: usize) -> io::Result<Self> {
        let mut joined = JoinOnDrop::default();
        let pool = ThreadPoolBuilder::new()
            // Zero would ask rayon, which asks the environment.
            .num_threads(threads.max(1))
            .spawn_handler(|worker| {
                let named = thread::Builder::new().name(format!("phalanx-worker-{}", worker.index()));
                joined.0.push(named.spawn(|| worker.run())?);
                Ok(())
            })
            .build()
            .map_err(io::Error::other)?;
        Ok(Self { pool: Arc::new(pool), _joined: joined, spare: Mutex::default() })
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs `op` on one of the threads; rayon's parallel iterators and joins inside it use them all. A panic reaches the
    /// caller.
    pub fn install<R: Send>(&self, op: impl FnOnce() -> R + Send) -> R {
        self.pool.install(op)
    }

    /// A way to call the threads from what may outlive them.
    pub fn downgrade(&self) -> WeakWorkers {
        WeakWorkers(Arc::downgrade(&self.pool))
    }

    /// Runs `job` once for every transaction of `dag` that is not withdrawn, each after those it waits for.
    ///
    /// Worker *i* gets `locals[i]`, and there are as many workers as locals, at most [`Self::threads`]. A single worker
    /// is the calling thread, in block order. A thread of the pool that calls is one of the workers; the others come as
    /// soon as they have nothing else to do, and none has to come. A job that calls has a run of its own, on its thread.
    /// Several runs may go on at once.
    ///
    /// # Panics
    /// With the job's panic, if one panics; then other transactions may or may not have run, and the workers stay
    /// usable. If `locals` is empty and `dag` is not.
    pub fn run<L: Send, J: Job<L> + ?Sized>(&self, dag: &Dag, locals: &mut [L], job: &J) -> Report {
        if dag.is_empty() {
            return Report::default();
        }
        let count = locals.len().min(self.threads());
        assert!(count != 0, "at least one worker needs a local");
        if count == 1 || Seat::is_taken() {
            return inline::run(dag, &mut locals[0], job);
        }
        let mut state = self.spare.lock().pop().unwrap_or_default();
        let report = self.run_on(&mut state, dag, &mut locals[..count], job);
        self.spare.lock().push(state);
        report
    }

    /// [`Self::run`] in one order that `seed` draws among those the DAG permits, on the calling thread: for tests, and to
    /// see again what one of them showed. O(nodes + edges).
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

    fn run_on<L: Send, J: Job<L> + ?Sized>(
        &self,
        state: &mut RunState,
        dag: &Dag,
        locals: &mut [L],
        job: &J,
    ) -> Report {
        state.reset(dag, locals.len());
        let RunState { countdown, cursor, idle, deques, stealers, reports } = state;
        let shared = Shared { dag, job, countdown, cursor, idle, stealers };
        let seats = locals.iter_mut().zip(deques).zip(reports.iter_mut());
        self.seat_all(seats, |index, ((local, deque), report)| {
            Worker::new(&shared, index, local, deque, report).run();
        });
        Report::collect(reports.iter_mut())
    }

    /// Has a thread `work` at each seat, the one that calls at the first if it is of the pool.
    ///
    /// A worker never needs another one to have arrived: whoever comes late finds what is left, or nothing. And no job waits
    /// for a task of the pool, so that a thread may take a seat wherever it waits itself: were it waiting inside a job, the
    /// run would not end before the job, nor the job before the run.
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

/// Held by a thread while it is a worker of some run.
pub(crate) struct Seat {
    /// Whether it sat somewhere before.
    before: bool,
}

impl Seat {
    thread_local! {
        static IS_TAKEN: Cell<bool> = const { Cell::new(false) };
    }

    /// Whether the calling thread is a worker of some run.
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
