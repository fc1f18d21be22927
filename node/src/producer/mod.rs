//! Production of blocks by the only producer of a chain: build from the pool, submit, commit, publish.
//!
//! ```text
//!  block n     ── build, submit ──┬── written, handed to the block store ──┬── publish
//!  block n+1                      └──────── build, submit ─────────────────┴── written, ..
//! ```
//!
//! A thread of its own does all of it. A period has one block, which begins as soon as a transaction waits, and at the end of the period
//! otherwise. While a block is written, the next one is built on it, if it is due by then or many transactions
//! wait: at most one block is executed and not committed. A failure that may pass, as a full disk, is reported and tried again; the engine's own end is
//! final. On a chain for development the same thread obeys the orders of its operator, between two blocks.

mod operator;
mod slot;
mod woken;

use crate::{
    chain::Chain,
    config::Production,
    error::NodeError,
    metrics::Metrics,
    next::{Next, Plan, Said},
    orders::{Asked, Pace},
    rounds::{Call, Rounds},
    steps::{Landing, Missed, Steps},
    store::Head,
};
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use operator::Snapshots;
use phalanx::{
    alloy::primitives::Bytes,
    api::{BlockBudget, BlockEnv, BuildRequest, BuiltCandidate, Candidate, ExecId, ExecutionEngine as _, Priority},
    pool::Pool,
};
use slot::Slot;
use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};
use woken::Woken;

/// Time after which a failed block is tried again.
const PAUSE: Duration = Duration::from_secs(1);

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
    /// Never blocks. A producer that does not sleep, or that sleeps until the clock wakes it, is not woken.
    pub(crate) fn ring(&self) {
        if self.rounds.call() {
            let _ = self.told.try_send(Told::Waiting);
        }
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

/// A block of this producer that is being committed.
#[derive(Debug)]
struct Flight {
    landing: Landing,
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
    /// The newest call whose transactions were looked at.
    seen: Call,
    /// Closed when the node stops.
    stop: Receiver<()>,
    steps: Steps,
    flight: Option<Flight>,
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
        (Self { chain, metrics, next, pace, snapshots, told, asked, rounds, seen: 0, stop, steps, flight: None }, bell)
    }

    /// Makes blocks until the node stops.
    ///
    /// # Errors
    /// If the engine has ended.
    pub(crate) fn run(mut self) -> Result<(), NodeError> {
        let ran = self.make();
        // No caller waits for a block that will not come.
        self.rounds.end(Call::MAX);
        ran
    }

    fn make(&mut self) -> Result<(), NodeError> {
        let mut pace = self.pace;
        let mut slot = self.slot();
        loop {
            if core::mem::replace(&mut pace, self.pace) != self.pace {
                slot = self.slot();
            }
            match self.wait(&slot) {
                Woken::Stopped => return self.settle(),
                Woken::Idle => {
                    self.settle()?;
                    // The commit may have made others ready: by funds that are free again, or by a lower base fee.
                    if self.pace.is_instant {
                        self.take_waiting()?;
                    }
                }
                Woken::Told => {
                    // Before the look at the pool: what was admitted before these calls runs now, or is taken.
                    let call = self.rounds.newest();
                    match self.take_waiting()? {
                        Some(txs) => slot.fill(txs),
                        None => self.taken(call),
                    }
                }
                Woken::Clock if slot.advance(Instant::now()) => {
                    let txs = self.take_waiting()?;
                    slot.fill(txs.unwrap_or_default());
                }
                Woken::Clock => _ = self.round(Empty::Made)?,
                Woken::Asked(asked) => {
                    self.settle()?;
                    self.obey(asked)?;
                    let call = self.rounds.newest();
                    if self.pace.is_instant && self.take_waiting()?.is_none() {
                        self.taken(call);
                    }
                }
            }
        }
    }

    /// The slot that begins now. On a chain for development its block is made at its end.
    fn slot(&self) -> Slot {
        Slot::new(self.pace.period, Instant::now(), !self.next.is_development())
    }

    /// Makes blocks of what waits, and returns the number of their transactions; `None` if nothing does.
    fn take_waiting(&mut self) -> Result<Option<usize>, NodeError> {
        if self.is_waiting() { self.round(Empty::LeftOut).map(Some) } else { Ok(None) }
    }

    /// Makes a block, and in instant mode those behind it until nothing waits. What fails is tried again. The last block may still be
    /// written when this returns. Returns the number of their transactions.
    fn round(&mut self, empty: Empty) -> Result<usize, NodeError> {
        let mut all = 0;
        while !self.stopped() {
            let call = self.rounds.newest();
            match self.produce(empty) {
                Ok(txs) => {
                    all += txs;
                    if txs == 0 || !self.pace.is_instant || !self.is_waiting() {
                        self.taken(call);
                        break;
                    }
                }
                Err(missed) => {
                    self.rounds.end(call);
                    self.pause(missed)?;
                }
            }
        }
        Ok(all)
    }

    /// Notes that no transaction of the calls so far waits that can run: their callers are notified once the executed block is visible.
    fn taken(&mut self, call: Call) {
        self.seen = call;
        match &mut self.flight {
            Some(flight) => flight.taken = Some(call),
            None => self.rounds.end(call),
        }
    }

    /// Waits until the executed block is committed, if there is one, and makes it visible. If that fails, its transactions are tried
    /// again.
    fn settle(&mut self) -> Result<(), NodeError> {
        while let Err(missed) = self.land() {
            self.rounds.end(self.rounds.newest());
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
            let waiting = |flight: &Flight| ready().saturating_sub(flight.landing.txs);
            if empty == Empty::LeftOut && self.flight.as_ref().is_some_and(|flight| waiting(flight) < MANY) {
                self.land()?;
            }
            let (begun, is_on_committed) = (Instant::now(), self.flight.is_none());
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
        let landing = Landing::begin(&mut self.steps, id, &env, (txs, attributes), begun)?;
        self.flight = Some(Flight { landing, said: self.next.said(), taken: None });
        Ok(())
    }

    /// Waits until the executed block is committed, if there is one, and makes it visible.
    fn land(&mut self) -> Result<(), Missed> {
        let Some(Flight { landing, said, taken }) = self.flight.take() else { return Ok(()) };
        let landed = landing.end(&mut self.steps, &self.metrics);
        self.metrics.stalled.store(landed.is_err(), Ordering::Relaxed);
        landed.inspect_err(|_| self.next.unmade(&said))?;
        let follows = self.pace.is_instant && {
            // The pool follows a commit after its event.
            self.chain.service.settle();
            self.is_waiting()
        };
        taken.filter(|_| !follows).into_iter().for_each(|call| self.rounds.end(call));
        Ok(())
    }

    /// Head of the newest executed block, visible or not.
    fn parent(&self) -> Result<Arc<Head>, Missed> {
        if let Some(flight) = &self.flight {
            return Ok(Arc::clone(&flight.landing.head));
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
        self.steps.build(request)
    }
}
