//! A node that follows another one: it takes each block, executes it, and compares every result with what the other says.
//!
//! The upstream node is trusted with the order of blocks, and with what neither their parents nor their execution show: beneficiaries,
//! and times near this node's clock. A block beyond that, of another content than its name is of, or with another result than
//! this node finds, ends the node for good; one that is ahead of this node's clock is tried again until it is not. What the
//! upstream node says before it is cut off is never shown.

use crate::{
    chain::{Chain, forks},
    environment,
    error::NodeError,
    metrics::Metrics,
    raw::{MOST_BLOCKS, RawBlock, RawBlocks},
    steps::{Landing, Missed, Steps},
    store::Head,
    upstream::{Answer, Upstream, UpstreamError},
};
use alloy_eips::eip7910::EthConfig;
use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use phalanx::{
    alloy::primitives::B256,
    api::{ExecId, ExecOutcome, Priority, ViewAt},
};
use serde_json::{json, value::RawValue};
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Interval at which the next block is asked for.
const INTERVAL: Duration = Duration::from_millis(20);

/// Time after which an upstream node that does not answer, or a block that could not be kept, is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Size of an answer that is always taken, in bytes: twice that of a block of CometBFT's default size, 22 MB, for its digits.
const LEAST_ANSWER: usize = 48 << 20;

/// Maximum size of an answer, in bytes, whatever gas a block may have.
const MOST_ANSWER: usize = 256 << 20;

/// Code of a method or of blocks that the upstream node does not have.
const LACKING: [i32; 2] = [-32601, 4444];

/// Follower before its thread starts.
#[derive(Debug)]
pub(crate) struct Follower {
    chain: Arc<Chain>,
    metrics: Arc<Metrics>,
    upstream: Upstream,
    /// Closed when the node stops.
    stop: Receiver<()>,
    steps: Steps,
    /// The newest executed block, until it is visible.
    landing: Option<Landing>,
    /// Number of blocks that are asked for at once: fewer while their answers are too long.
    count: u64,
}

impl Follower {
    /// Creates a follower that ends when the other side of `stop` is dropped.
    pub(crate) fn new(chain: Arc<Chain>, metrics: Arc<Metrics>, upstream: Upstream, stop: Receiver<()>) -> Self {
        let steps = Steps::new(Arc::clone(&chain));
        Self { chain, metrics, upstream, stop, steps, landing: None, count: MOST_BLOCKS }
    }

    /// Follows until the node stops.
    ///
    /// # Errors
    /// If the upstream node has another chain or lies, lacks the next block for good, or the engine has ended.
    pub(crate) fn run(mut self) -> Result<(), NodeError> {
        let (mut is_compared, mut is_away) = (false, false);
        loop {
            // What has been executed becomes visible, whatever comes behind it.
            let turned = self.turn(&mut is_compared);
            let pause = match self.land().and(turned) {
                Ok(0) => INTERVAL,
                Ok(_) => Duration::ZERO,
                Err(Missed::Final(error)) => return Err(error),
                Err(Missed::Invalid(failure)) => return Err(self.differs(format!("it is invalid: {failure}"))),
                Err(Missed::Passing(why)) => {
                    if !is_away && !self.is_stopped() {
                        tracing::warn!(why, "the next block does not come; trying again");
                    }
                    is_away = true;
                    PAUSE
                }
            };
            if pause != PAUSE && is_away {
                is_away = false;
                tracing::info!("blocks come again");
            }
            if self.stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return Ok(());
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.try_recv() == Err(TryRecvError::Disconnected)
    }

    fn differs(&self, what: String) -> NodeError {
        NodeError::Upstream { height: self.chain.height() + 1, what }
    }

    /// Warns if the upstream node schedules other forks: from the first of them on its blocks are invalid here.
    fn compare_forks(&self) {
        let theirs = self.upstream.pass::<EthConfig>("eth_config", &json!([]));
        if let (Ok(theirs), Some(ours)) = (theirs, forks(&self.chain))
            && (theirs.next != ours.next || theirs.last != ours.last)
        {
            let [there, here] = [theirs, ours].map(|config| config.next.map(|fork| fork.activation_time));
            tracing::warn!(?there, ?here, "the upstream node schedules other forks: give both the same upgrades");
        }
    }

    /// Head of the newest executed block, visible or not.
    fn parent(&self) -> Arc<Head> {
        self.landing.as_ref().map_or_else(|| self.chain.head(), |landing| Arc::clone(&landing.head))
    }

    /// Waits until the newest executed block is committed, and makes it visible.
    fn land(&mut self) -> Result<(), Missed> {
        let Some(landing) = self.landing.take() else { return Ok(()) };
        landing.end(&mut self.steps, &self.metrics)
    }

    /// Takes the blocks that there are, and returns their number. The last one may still be written when this returns.
    fn turn(&mut self, is_compared: &mut bool) -> Result<u64, Missed> {
        let head = self.chain.head();
        // The newest own block comes first, be it the genesis: it must be the upstream node's as well.
        let from = if *is_compared { head.header.number + 1 } else { head.header.number };
        let answer = self.ask(from)?;
        let RawBlocks(blocks) = answer.read().map_err(|error| self.unanswered(from, &error))?;
        self.count = (self.count * 2).min(MOST_BLOCKS);
        let mut blocks = blocks.into_iter();
        if from == head.header.number {
            let Some(same) = blocks.next() else {
                return Err(Missed::Passing(format!("the upstream node has no block {from} yet")));
            };
            let same = parse(same)?;
            // The hash does not bind the milliseconds of the time.
            if (same.hash, same.execution, same.state_root) != (head.hash, head.exec, head.header.state_root) {
                let what = format!(
                    "block {from} is {} there and {} here: another chain, by its genesis or its blocks",
                    same.hash, head.hash
                );
                return Err(Missed::Final(self.differs(what)));
            }
        }
        if !*is_compared {
            self.compare_forks();
        }
        *is_compared = true;
        let mut count = 0;
        for block in blocks {
            self.take(&parse(block)?)?;
            count += 1;
            if self.is_stopped() {
                break;
            }
        }
        Ok(count)
    }

    /// Asks for blocks. They are parsed one by one: each is short, all together need not be.
    fn ask(&mut self, from: u64) -> Result<Answer, Missed> {
        let limit = self.chain.head().header.gas_limit;
        loop {
            let params = json!([format!("{from:#x}"), format!("{:#x}", self.count)]);
            match self.upstream.call("phalanx_getRawBlocks", &params, plausible(limit)) {
                Err(UpstreamError::TooLong { .. }) if self.count > 1 => self.count /= 2,
                answer => return answer.map_err(|error| self.unanswered(from, &error)),
            }
        }
    }

    /// Meaning of an answer without blocks.
    fn unanswered(&self, from: u64, error: &UpstreamError) -> Missed {
        match error {
            UpstreamError::Refused { code, message, .. } if LACKING.contains(code) => {
                let what = format!(
                    "the upstream node does not have block {from} ({message}): it needs the namespace phalanx and all blocks \
                     from there on; begin with a copy of a newer state"
                );
                Missed::Final(self.differs(what))
            }
            other => Missed::Passing(other.to_string()),
        }
    }

    /// Executes a block, compares its result, and begins to commit it. The block before is written meanwhile, and visible then.
    fn take(&mut self, block: &RawBlock) -> Result<(), Missed> {
        let (begun, head) = (Instant::now(), self.parent());
        let height = head.header.number + 1;
        let differs = |what: String| Missed::Final(NodeError::Upstream { height, what });
        if (block.number.to::<u64>(), block.parent_hash) != (height, head.hash) {
            let what =
                format!("it is block {} on {}, and {} is the newest here", block.number, block.parent_hash, head.hash);
            return Err(differs(what));
        }
        let id = self.chain.spec.chain_id();
        let candidate = block.candidate(id, ExecId(head.exec)).ok_or_else(|| {
            differs(format!("no block of chain {id} has this content and the name {}", block.execution))
        })?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let now = u64::try_from(now).unwrap_or(u64::MAX);
        environment::check(&self.chain.spec, &candidate, &head).map_err(differs)?;
        environment::check_clock(&candidate, &head, now).map_err(Missed::Passing)?;
        if self.landing.is_none() {
            // What an earlier try has left loses.
            self.steps.clear()?;
        }
        let (name, env, txs) = (candidate.id(), *candidate.env(), candidate.payload().txs().len());
        let attributes = candidate.payload().attributes().clone();
        let outcome = self.steps.submit(candidate, Priority::Decided)?;
        let hash = self.chain.service.block_hash(ViewAt::Exec(name))?;
        compare(block, &outcome, hash).map_err(differs)?;
        self.land()?;
        self.landing = Some(Landing::begin(&mut self.steps, name, &env, (txs, attributes), begun)?);
        Ok(())
    }
}

fn parse(block: &RawValue) -> Result<RawBlock, Missed> {
    serde_json::from_str(block.get()).map_err(|error| Missed::Passing(format!("the upstream node's block: {error}")))
}

/// Maximum size of an answer with one block, in bytes: a byte of a transaction costs 4 gas or more (EIP-2028) and has two digits.
/// Skipped transactions of CometBFT's blocks cost none, so its default size is always taken.
fn plausible(gas_limit: u64) -> usize {
    usize::try_from(gas_limit / 2).unwrap_or(usize::MAX).clamp(LEAST_ANSWER, MOST_ANSWER)
}

/// Compares the result of a block with what is said of it.
fn compare(block: &RawBlock, outcome: &ExecOutcome, hash: B256) -> Result<(), String> {
    let differs = |what: &str, says: &dyn core::fmt::Display, found: &dyn core::fmt::Display| {
        Err(format!("its {what} is {says} there and {found} here: a report to the operators of both nodes is due"))
    };
    if outcome.state_root != block.state_root {
        return differs("state root", &block.state_root, &outcome.state_root);
    }
    if outcome.receipts_root != block.receipts_root {
        return differs("receipts root", &block.receipts_root, &outcome.receipts_root);
    }
    if outcome.gas_used != block.gas_used.to::<u64>() {
        return differs("gas", &block.gas_used, &outcome.gas_used);
    }
    if hash != block.hash {
        return differs("hash", &block.hash, &hash);
    }
    Ok(())
}
