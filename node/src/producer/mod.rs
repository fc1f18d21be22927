//! Production of blocks by the only producer of a chain: build from the pool, submit, commit, publish.
//!
//! A thread of its own does all of it. A failure that may pass, as a full disk, is reported and tried again; the engine's own end is
//! final. On a chain for development the same thread obeys the orders of its operator, between two blocks.

mod operator;

use crate::{
    chain::Chain,
    config::Production,
    error::NodeError,
    metrics::Metrics,
    next::{Next, Plan},
    orders::{Asked, Pace},
    rounds::{Call, Rounds},
    steps::{Missed, Steps},
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, at, bounded, never};
use operator::Snapshots;
use phalanx::{
    alloy::primitives::Bytes,
    api::{BlockBudget, BlockEnv, Build as _, BuildRequest, BuiltCandidate, Candidate, ExecutionEngine as _, Priority},
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

/// Time after which a failed block is tried again.
const PAUSE: Duration = Duration::from_secs(1);

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
    /// The node stops.
    Stopped,
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
        (Self { chain, metrics, next, pace, snapshots, told, asked, rounds, stop, steps }, bell)
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
                Woken::Stopped => return Ok(()),
                Woken::Told if self.pace.is_instant => self.round(Empty::LeftOut)?,
                Woken::Told => self.rounds.end(Some(self.rounds.newest())),
                Woken::Clock => {
                    due = due.zip(self.pace.period).map(|(due, period)| (due + period).max(Instant::now()));
                    self.round(Empty::Made)?;
                }
                Woken::Asked(asked) => {
                    self.obey(asked)?;
                    if self.pace.is_instant && self.is_waiting() {
                        self.round(Empty::LeftOut)?;
                    }
                }
            }
        }
    }

    fn wait(&self, due: Option<Instant>) -> Woken {
        let clock = due.map_or_else(never, at);
        crossbeam_channel::select_biased! {
            recv(self.stop) -> _ => Woken::Stopped,
            recv(clock) -> _ => Woken::Clock,
            recv(self.asked) -> asked => asked.map_or(Woken::Stopped, Woken::Asked),
            recv(self.told) -> told => told.map_or(Woken::Stopped, |_| Woken::Told),
        }
    }

    /// Makes a block, and in instant mode those behind it until nothing waits. What fails is tried again.
    fn round(&mut self, empty: Empty) -> Result<(), NodeError> {
        while !self.stopped() {
            let call = self.rounds.newest();
            let produced = self.produce(empty);
            let goes_on = produced.as_ref().is_ok_and(|txs| *txs > 0) && self.pace.is_instant && self.is_waiting();
            self.rounds.end((!goes_on).then_some(call));
            let why = match produced {
                Ok(_) if goes_on => continue,
                Ok(_) => return Ok(()),
                Err(Missed::Final(error)) => return Err(error),
                Err(Missed::Invalid(failure)) => failure.to_string(),
                Err(Missed::Passing(why)) => why,
            };
            self.metrics.missed_blocks.inc();
            tracing::warn!(why, "no block was made; trying again in a second");
            if self.stop.recv_deadline(Instant::now() + PAUSE) != Err(RecvTimeoutError::Timeout) {
                return Ok(());
            }
        }
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
        self.chain.service.with_pool(|pool| pool.ready().next().is_some())
    }

    /// Makes a block, and returns the number of its transactions.
    fn produce(&mut self, empty: Empty) -> Result<usize, Missed> {
        let produced = self.try_produce(empty);
        self.metrics.stalled.store(produced.is_err(), Ordering::Relaxed);
        produced
    }

    fn try_produce(&mut self, empty: Empty) -> Result<usize, Missed> {
        let begun = Instant::now();
        // What an earlier try has left loses.
        self.steps.clear()?;
        let built = self.build()?;
        let txs = built.candidate.payload().txs().len();
        if txs == 0 && empty == Empty::LeftOut {
            return Ok(0);
        }
        let time = built.candidate.env().timestamp_ms / 1000;
        self.commit(built.candidate, Priority::Build, begun)?;
        self.next.made(time);
        Ok(txs)
    }

    /// Executes a child of the newest block, commits it and makes it visible.
    fn commit(&mut self, block: Candidate, priority: Priority, begun: Instant) -> Result<(), Missed> {
        let (id, height, txs) = (block.id(), block.env().height, block.payload().txs().len());
        self.steps.submit(block, priority)?;
        self.steps.commit(id, height)?;
        self.chain.publish(height).map_err(|error| Missed::Final(error.into()))?;
        self.metrics.block(height, txs as u64);
        self.metrics.block_seconds.observe(begun.elapsed().as_secs_f64());
        tracing::info!(height, txs, ms = begun.elapsed().as_millis() as u64, "block");
        Ok(())
    }

    /// Environment of a child of the newest block.
    fn env(&self, plan: &Plan) -> Result<BlockEnv, Missed> {
        let (tip, head) = (self.chain.service.status().committed, self.chain.head());
        if head.header.number != tip.height {
            return Err(Missed::Passing("the newest block is not visible yet".into()));
        }
        let env = self.chain.service.next_env(tip.exec, &plan.attributes)?;
        Ok(BlockEnv { base_fee: plan.base_fee.unwrap_or(env.base_fee), ..env })
    }

    fn build(&self) -> Result<BuiltCandidate, Missed> {
        let env = self.env(&self.next.plan(&self.chain.head()))?;
        let parent = self.chain.service.status().committed.exec;
        let request =
            BuildRequest { parent, env, budget: BlockBudget::UNLIMITED, forced: Vec::new(), attributes: Bytes::new() };
        let job = self.chain.service.build(request)?;
        // The pool is exhausted, or the block is full: the gas limit bounds the wait.
        self.chain.service.settle();
        Ok(job.finish()?)
    }
}
