//! Production of blocks by the only producer of a chain: build from the pool, submit, commit, publish.
//!
//! ```text
//!  block n     ── build, submit ──┬── written, handed to the block store ──┬── publish
//!  block n+1                      └──────── build, submit ─────────────────┴── written, ..
//! ```
//!
//! A thread of its own does all of it. While a block is written, the next one is built on it, if it is due by then or many transactions
//! wait: at most one block is executed and not committed. A failure that may pass, as a full disk, is reported and tried again; the engine's own end is
//! final. On a chain for development the same thread obeys the orders of its operator, between two blocks.

mod operator;

use crate::{
    chain::Chain,
    config::Production,
    error::NodeError,
    metrics::Metrics,
    next::{Next, Plan, Said},
    orders::{Asked, Pace},
    rounds::{Call, Rounds},
    steps::{Missed, Steps},
    store::Head,
};
use crossbeam_channel::{Receiver, Sender, TryRecvError, at, bounded, never};
use operator::Snapshots;
use phalanx::{
    alloy::{consensus::Header, primitives::Bytes},
    api::{
        BlockBudget, BlockEnv, Build as _, BuildRequest, BuiltCandidate, Candidate, ExecId, ExecutionEngine as _,
        Priority, ViewAt,
    },
    pool::Pool,
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

/// Time after which a failed block is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum time that a block is built for. A full one takes a part of a second.
const FULL: Duration = Duration::from_secs(60);

/// Number of waiting transactions that is worth a block while the one before is still written. Fewer wait for that, in one block with
/// what comes meanwhile.
const MANY: usize = 256;

/// Maximum number of orders that wait for the producer; a further one waits in its own thread.
const ORDERS: usize = 16;

/// Message to the producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// A transaction waits.
    Waiting,
}

/// Notifies the producer of transactions, and carries orders to it. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Bell {
    told: Sender<Told>,
    asked: Sender<Asked>,
    rounds: Arc<Rounds>,
    next: Arc<Next>,
}

impl Bell {
    /// Never blocks: one message is enough, however many transactions wait.
    pub(crate) fn ring(&self) {
        self.rounds.call();
        let _ = self.told.try_send(Told::Waiting);
    }

    /// The rounds, if a transaction that can run is in a block at once.
    pub(crate) fn rounds(&self) -> Option<&Rounds> {
        Some(&*self.rounds).filter(|rounds| rounds.are_instant())
    }

    /// The next block, as far as its operator has said something about it.
    pub(crate) fn next(&self) -> &Next {
        &self.next
    }

    /// Brings an order. Returns false if the producer has ended.
    pub(crate) fn ask(&self, asked: Asked) -> bool {
        self.asked.send(asked).is_ok()
    }
}

/// Event that the producer waits for.
enum Woken {
    /// A transaction waits.
    Told,
    /// The next block is due.
    Clock,
    Asked(Asked),
    /// Nothing else happens while a block is being committed.
    Idle,
    /// The node stops.
    Stopped,
}

/// An executed block that is being committed, and is not visible yet.
#[derive(Debug)]
struct Landing {
    /// Head of the block, for its child. Lists of the block are left out.
    head: Arc<Head>,
    txs: usize,
    begun: Instant,
    /// Orders of the operator for it, for the next try if this one fails.
    said: Said,
    /// The newest call whose transactions are in this block or in an earlier one, as far as they can run.
    taken: Option<Call>,
}

/// Whether a block without transactions is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Empty {
    Made,
    LeftOut,
}

/// Producer before its thread starts.
#[derive(Debug)]
pub(crate) struct Producer {
    chain: Arc<Chain>,
    metrics: Arc<Metrics>,
    next: Arc<Next>,
    pace: Pace,
    snapshots: Snapshots,
    told: Receiver<Told>,
    asked: Receiver<Asked>,
    rounds: Arc<Rounds>,
    /// Closed when the node stops.
    stop: Receiver<()>,
    steps: Steps,
    landing: Option<Landing>,
}

impl Producer {
    /// Creates a producer that ends when the other side of `stop` is dropped.
    pub(crate) fn new(
        chain: Arc<Chain>,
        metrics: Arc<Metrics>,
        production: Production,
        next: Arc<Next>,
        stop: Receiver<()>,
    ) -> (Self, Bell) {
        let ((bell, told), (order, asked)) = (bounded(1), bounded(ORDERS));
        let (steps, pace) = (Steps::new(Arc::clone(&chain)), Pace::from(production));
        let rounds = Arc::new(Rounds::default());
        rounds.set_instant(pace.is_instant);
        let bell = Bell { told: bell, asked: order, rounds: Arc::clone(&rounds), next: Arc::clone(&next) };
        let snapshots = Snapshots::default();
        (Self { chain, metrics, next, pace, snapshots, told, asked, rounds, stop, steps, landing: None }, bell)
    }

    /// Makes blocks until the node stops.
    ///
    /// # Errors
    /// If the engine has ended.
    pub(crate) fn run(mut self) -> Result<(), NodeError> {
        let ran = self.make();
        // No caller waits for a block that will not come.
        self.rounds.end(Some(Call::MAX));
        ran
    }

    fn make(&mut self) -> Result<(), NodeError> {
        let mut pace = self.pace;
        let mut due = pace.period.map(|period| Instant::now() + period);
        loop {
            if core::mem::replace(&mut pace, self.pace) != self.pace {
                due = self.pace.period.map(|period| Instant::now() + period);
            }
            match self.wait(due) {
                Woken::Stopped => return self.settle(),
                Woken::Idle => {
                    self.settle()?;
                    // The commit may have made others ready: by funds that are free again, or by a lower base fee.
                    if self.pace.is_instant && self.is_waiting() {
                        self.round(Empty::LeftOut)?;
                    }
                }
                Woken::Told => {
                    // Before the look at the pool: what was admitted before these calls runs now, or is taken.
                    let call = self.rounds.newest();
                    if self.pace.is_instant && self.is_waiting() {
                        self.round(Empty::LeftOut)?;
                    } else {
                        self.taken(call);
                    }
                }
                Woken::Clock => {
                    due = due.zip(self.pace.period).map(|(due, period)| (due + period).max(Instant::now()));
                    self.round(Empty::Made)?;
                }
                Woken::Asked(asked) => {
                    self.settle()?;
                    self.obey(asked)?;
                    if self.pace.is_instant && self.is_waiting() {
                        self.round(Empty::LeftOut)?;
                    }
                }
            }
        }
    }

    /// Waits for the next event, at most until the block is due. A block that is being committed is the next event if there is no other.
    fn wait(&self, due: Option<Instant>) -> Woken {
        let clock = due.map_or_else(never, at);
        let idle = if self.landing.is_some() { at(Instant::now()) } else { never() };
        crossbeam_channel::select_biased! {
            recv(self.stop) -> _ => Woken::Stopped,
            recv(clock) -> _ => Woken::Clock,
            recv(self.asked) -> asked => asked.map_or(Woken::Stopped, Woken::Asked),
            recv(self.told) -> told => told.map_or(Woken::Stopped, |_| Woken::Told),
            recv(idle) -> _ => Woken::Idle,
        }
    }

    /// Makes a block, and in instant mode those behind it until nothing waits. What fails is tried again. The last block may still be
    /// written when this returns.
    fn round(&mut self, empty: Empty) -> Result<(), NodeError> {
        while !self.stopped() {
            let call = self.rounds.newest();
            match self.produce(empty) {
                Ok(txs) if txs > 0 && self.pace.is_instant && self.is_waiting() => {}
                Ok(_) => {
                    self.taken(call);
                    return Ok(());
                }
                Err(missed) => {
                    self.rounds.end(Some(call));
                    self.pause(missed)?;
                }
            }
        }
        Ok(())
    }

    /// Notes that no transaction of the calls so far waits that can run: their callers are notified once the executed block is visible.
    fn taken(&mut self, call: Call) {
        match &mut self.landing {
            Some(landing) => landing.taken = Some(call),
            None => self.rounds.end(Some(call)),
        }
    }

    /// Waits until the executed block is committed, if there is one, and makes it visible. If that fails, its transactions are tried
    /// again.
    fn settle(&mut self) -> Result<(), NodeError> {
        while let Err(missed) = self.land() {
            self.rounds.end(Some(self.rounds.newest()));
            self.pause(missed)?;
            self.round(Empty::LeftOut)?;
        }
        Ok(())
    }

    /// Reports a block that was not made, and waits until it is tried again, or the node stops.
    fn pause(&self, missed: Missed) -> Result<(), NodeError> {
        let why = match missed {
            Missed::Final(error) => return Err(error),
            Missed::Invalid(failure) => failure.to_string(),
            Missed::Passing(why) => why,
        };
        self.metrics.missed_blocks.inc();
        tracing::warn!(why, "no block was made; trying again in a second");
        let _ = self.stop.recv_deadline(Instant::now() + PAUSE);
        Ok(())
    }

    /// Sets when blocks are made, from now on.
    fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
        self.rounds.set_instant(pace.is_instant);
    }

    fn stopped(&self) -> bool {
        self.stop.try_recv() == Err(TryRecvError::Disconnected)
    }

    fn is_waiting(&self) -> bool {
        self.chain.service.with_pool(Pool::has_ready)
    }

    /// Makes a block, and returns the number of its transactions. It is executed then, and visible once it has [landed](Self::land).
    fn produce(&mut self, empty: Empty) -> Result<usize, Missed> {
        let produced = self.try_produce(empty);
        self.metrics.stalled.store(produced.is_err(), Ordering::Relaxed);
        // The block before may have no part in the failure.
        if produced.is_err() { self.land().and(produced) } else { produced }
    }

    fn try_produce(&mut self, empty: Empty) -> Result<usize, Missed> {
        loop {
            let ready = || self.chain.service.with_pool(|pool| pool.ready_load().txs);
            let waiting = |landing: &Landing| ready().saturating_sub(landing.txs);
            if empty == Empty::LeftOut && self.landing.as_ref().is_some_and(|landing| waiting(landing) < MANY) {
                self.land()?;
            }
            let (begun, is_on_committed) = (Instant::now(), self.landing.is_none());
            if is_on_committed {
                // What an earlier try has left loses.
                self.steps.clear()?;
            }
            let built = self.build()?;
            let txs = built.candidate.payload().txs().len();
            if txs == 0 && empty == Empty::LeftOut {
                self.land()?;
                if !is_on_committed && self.is_waiting() {
                    // What can never run is dropped on a committed block alone.
                    continue;
                }
                return Ok(0);
            }
            let time = built.candidate.env().timestamp_ms / 1000;
            self.commit(built.candidate, Priority::Build, begun)?;
            self.next.made(time);
            return Ok(txs);
        }
    }

    /// Executes a child of the newest block, and begins to commit it. The block before is visible then.
    fn commit(&mut self, block: Candidate, priority: Priority, begun: Instant) -> Result<(), Missed> {
        let (id, env, txs) = (block.id(), *block.env(), block.payload().txs().len());
        let attributes = block.payload().attributes().clone();
        self.steps.submit(block, priority)?;
        self.land()?;
        let at = ViewAt::Exec(id);
        let (hash, header) = (self.chain.service.block_hash(at)?, self.chain.service.header(at)?);
        let header = header.ok_or_else(|| Missed::Passing("the block has no header".into()))?;
        self.steps.begin_commit(id, env.height)?;
        let head = Head {
            hash,
            exec: id.0,
            header: Header::clone(&header),
            timestamp_ms: env.timestamp_ms,
            attributes,
            access_list: Bytes::new(),
            skipped: Vec::new(),
        };
        self.landing = Some(Landing { head: Arc::new(head), txs, begun, said: self.next.said(), taken: None });
        Ok(())
    }

    /// Waits until the executed block is committed, if there is one, and makes it visible.
    fn land(&mut self) -> Result<(), Missed> {
        let Some(Landing { head, txs, begun, said, taken }) = self.landing.take() else { return Ok(()) };
        let height = head.header.number;
        let landed = self.steps.end_commit();
        self.metrics.stalled.store(landed.is_err(), Ordering::Relaxed);
        landed.inspect_err(|_| self.next.unmade(&said))?;
        self.chain.publish(height).map_err(|error| Missed::Final(error.into()))?;
        self.metrics.block(height, txs as u64);
        self.metrics.block_seconds.observe(begun.elapsed().as_secs_f64());
        tracing::info!(height, txs, ms = begun.elapsed().as_millis() as u64, "block");
        let follows = self.pace.is_instant && {
            // The pool follows a commit after its event.
            self.chain.service.settle();
            self.is_waiting()
        };
        self.rounds.end(taken.filter(|_| !follows));
        Ok(())
    }

    /// Head of the newest executed block, visible or not.
    fn parent(&self) -> Result<Arc<Head>, Missed> {
        if let Some(landing) = &self.landing {
            return Ok(Arc::clone(&landing.head));
        }
        let (tip, head) = (self.chain.service.status().committed, self.chain.head());
        if head.header.number != tip.height {
            return Err(Missed::Passing("the newest block is not visible yet".into()));
        }
        Ok(head)
    }

    /// Environment of a child of a block.
    fn env(&self, parent: &Head, plan: &Plan) -> Result<BlockEnv, Missed> {
        let env = self.chain.service.next_env(ExecId(parent.exec), &plan.attributes)?;
        Ok(BlockEnv { base_fee: plan.base_fee.unwrap_or(env.base_fee), ..env })
    }

    fn build(&self) -> Result<BuiltCandidate, Missed> {
        let head = self.parent()?;
        let (parent, env) = (ExecId(head.exec), self.env(&head, &self.next.plan(&head))?);
        let request =
            BuildRequest { parent, env, budget: BlockBudget::UNLIMITED, forced: Vec::new(), attributes: Bytes::new() };
        let job = self.chain.service.build(request)?;
        // The pool is exhausted, or the block is full: the gas limit bounds the wait.
        job.wait(FULL);
        Ok(job.finish()?)
    }
}
