//! Production of blocks by the only producer of a chain: build from the pool, submit, commit, publish.
//!
//! A thread of its own does all of it. A failure that may pass, as a full disk, is reported and tried again; the engine's own end is final.

use crate::{
    chain::Chain,
    config::Production,
    environment,
    error::NodeError,
    metrics::Metrics,
    rounds::{Call, Rounds},
    steps::{Missed, Steps},
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};
use phalanx::{
    alloy::primitives::{Address, Bytes},
    api::{BlockBudget, Build as _, BuildRequest, BuiltCandidate, ExecId, ExecutionEngine as _, Priority},
    chain::Attributes,
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Time after which a failed block is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Message to the producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// A transaction waits.
    Waiting,
}

/// Tells the producer that a transaction waits. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Bell {
    told: Sender<Told>,
    /// Rounds of a producer that makes blocks for transactions; `None` if it makes them by the clock, or never.
    rounds: Option<Arc<Rounds>>,
}

impl Bell {
    /// Never blocks: one message is enough, however many transactions wait.
    pub(crate) fn ring(&self) {
        if let Some(rounds) = &self.rounds {
            rounds.call();
        }
        let _ = self.told.try_send(Told::Waiting);
    }

    /// The rounds, if a transaction that can run is in a block at once.
    pub(crate) fn rounds(&self) -> Option<&Rounds> {
        self.rounds.as_deref()
    }
}

/// Producer before its thread starts.
#[derive(Debug)]
pub(crate) struct Producer {
    chain: Arc<Chain>,
    metrics: Arc<Metrics>,
    production: Production,
    gas_limit: Option<u64>,
    beneficiary: Address,
    told: Receiver<Told>,
    rounds: Option<Arc<Rounds>>,
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
        gas_limit: Option<u64>,
        beneficiary: Address,
        stop: Receiver<()>,
    ) -> (Self, Bell) {
        let (bell, told) = bounded(1);
        let steps = Steps::new(Arc::clone(&chain));
        let rounds = (production == Production::Instant).then(Arc::default);
        let bell = Bell { told: bell, rounds: rounds.clone() };
        (Self { chain, metrics, production, gas_limit, beneficiary, told, rounds, stop, steps }, bell)
    }

    /// Makes blocks until the node stops.
    ///
    /// # Errors
    /// If the engine has ended.
    pub(crate) fn run(mut self) -> Result<(), NodeError> {
        let ran = self.make();
        // No caller waits for a block that will not come.
        self.end(Some(Call::MAX));
        ran
    }

    fn make(&mut self) -> Result<(), NodeError> {
        let mut next = Instant::now();
        loop {
            let wanted = match self.production {
                Production::Off => {
                    let _ = self.stop.recv();
                    false
                }
                Production::Instant => self.wait_for_transactions(),
                Production::Every(period) => {
                    next = (next + period).max(Instant::now());
                    self.wait_until(next)
                }
            };
            if !wanted {
                return Ok(());
            }
            while !self.stopped() {
                let call = self.rounds.as_ref().map(|rounds| rounds.newest());
                let produced = self.produce();
                self.metrics.stalled.store(produced.is_err(), Ordering::Relaxed);
                let goes_on = produced.as_ref().is_ok_and(|txs| *txs > 0) && self.rounds.is_some() && self.is_waiting();
                self.end(call.filter(|_| !goes_on));
                match produced {
                    Ok(_) if goes_on => {}
                    Ok(_) => break,
                    Err(missed) => {
                        let why = match missed {
                            Missed::Final(error) => return Err(error),
                            Missed::Invalid(failure) => failure.to_string(),
                            Missed::Passing(why) => why,
                        };
                        self.metrics.missed_blocks.inc();
                        tracing::warn!(why, "no block was made; trying again in a second");
                        if !self.wait_until(Instant::now() + PAUSE) {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    /// Ends a round: callers learn what became of their transactions.
    fn end(&self, taken: Option<Call>) {
        if let Some(rounds) = &self.rounds {
            rounds.end(taken);
        }
    }

    fn stopped(&self) -> bool {
        self.stop.try_recv() == Err(TryRecvError::Disconnected)
    }

    /// Returns false if the node stops.
    fn wait_until(&self, time: Instant) -> bool {
        self.stop.recv_deadline(time) == Err(RecvTimeoutError::Timeout)
    }

    /// Returns false if the node stops.
    fn wait_for_transactions(&self) -> bool {
        crossbeam_channel::select! {
            recv(self.told) -> told => told.is_ok(),
            recv(self.stop) -> _ => false,
        }
    }

    fn is_waiting(&self) -> bool {
        self.chain.service.with_pool(|pool| pool.ready().next().is_some())
    }

    /// Makes a block, and returns the number of its transactions.
    fn produce(&mut self) -> Result<usize, Missed> {
        let begun = Instant::now();
        // What an earlier try has left loses.
        self.steps.clear()?;
        let tip = self.chain.service.status().committed;
        let built = self.build(tip.exec, tip.height + 1)?;
        let txs = built.candidate.payload().txs().len();
        if txs == 0 && self.production == Production::Instant {
            return Ok(0);
        }
        let id = built.candidate.id();
        self.steps.submit(built.candidate, Priority::Build)?;
        self.steps.commit(id, tip.height + 1)?;
        self.chain.publish(tip.height + 1).map_err(|error| Missed::Final(error.into()))?;
        self.metrics.block(tip.height + 1, txs as u64);
        self.metrics.block_seconds.observe(begun.elapsed().as_secs_f64());
        tracing::info!(height = tip.height + 1, txs, ms = begun.elapsed().as_millis() as u64, "block");
        Ok(txs)
    }

    fn build(&self, parent: ExecId, height: u64) -> Result<BuiltCandidate, Missed> {
        let head = self.chain.head();
        if head.header.number + 1 != height {
            return Err(Missed::Passing("the newest block is not visible yet".into()));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let attributes = Attributes {
            timestamp: now.max(head.header.timestamp + 1),
            beneficiary: self.beneficiary,
            prevrandao: environment::randao(head.exec, height),
            gas_limit: self.gas_limit.map(|wanted| environment::gas_limit(head.header.gas_limit, wanted)),
            ..Attributes::default()
        };
        let env = self.chain.service.next_env(parent, &attributes)?;
        let request =
            BuildRequest { parent, env, budget: BlockBudget::UNLIMITED, forced: Vec::new(), attributes: Bytes::new() };
        let job = self.chain.service.build(request)?;
        // The pool is exhausted, or the block is full: the gas limit bounds the wait.
        self.chain.service.settle();
        Ok(job.finish()?)
    }
}
