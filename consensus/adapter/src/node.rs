//! Consensus, pipeline and engine as one node.

use crate::{
    consensus::{Consensus, Standing},
    handshake::{Handshake, handshake},
};
use phalanx_engine_api::{EngineEvent, EngineStatus, ExecutionEngine, Failure, FatalCause, RetryCause, Ticket};
use phalanx_pipeline::{Called, ConsensusEvent, Effect, PayloadRef, Pipeline, call};
use std::{collections::VecDeque, sync::Arc};

/// Maximum number of consensus events taken per poll, so that completions get their turn.
const BATCH: usize = 64;

/// Reason why a node cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The engine must rewind and cannot for the moment. Nothing has changed: open again.
    #[error("the engine cannot rewind to height {height} now: {cause}")]
    Retry {
        /// Target height.
        height: u64,
        /// Cause of the refusal.
        cause: RetryCause,
    },
    /// The engine is ahead of the log of consensus, and keeps no block that it could go back to.
    #[error(
        "the state is at height {state} and the log ends at {log}, which the state cannot go back to: \
         a part of the log is lost, or one of them was restored without the other"
    )]
    Ahead {
        /// Height of the engine's committed block.
        state: u64,
        /// Height of the newest block in the log.
        log: u64,
    },
    /// Consensus and engine cannot be brought together, or one of them is broken.
    #[error(transparent)]
    Fatal(#[from] FatalCause),
}

impl OpenError {
    /// Error that a refused rewind stands for.
    fn refused(height: u64, why: Failure) -> Self {
        match why {
            Failure::Retry(cause) => Self::Retry { height, cause },
            Failure::Fatal(cause) => Self::Fatal(cause),
            // Engines do not refuse a committed block with these: this engine has other blocks there.
            Failure::Invalid(_) | Failure::Superseded | Failure::Pruned { .. } => {
                Self::Fatal(FatalCause::Fork { height })
            }
        }
    }
}

/// A node without a thread or a clock. [`Node::poll`] does all pending work; the caller decides when: at every message,
/// at [`Node::due`], and when the engine wakes.
#[derive(Debug)]
pub struct Node<E, C> {
    engine: Arc<E>,
    consensus: C,
    pipeline: Pipeline,
    /// Time at which the pipeline's timer fires, in µs.
    due: Option<u64>,
    effects: VecDeque<Effect>,
    halted: Option<FatalCause>,
}

impl<E: ExecutionEngine, C: Consensus> Node<E, C> {
    /// Brings consensus and engine together and begins. Replay continues in [`Node::poll`], as fast as the engine can.
    ///
    /// # Errors
    /// Consensus and engine cannot be brought together, or not now. [`Handshake::Sync`] is not an error but the second
    /// value: fetching state from elsewhere is up to the chain.
    pub fn open(engine: Arc<E>, consensus: C, now_us: u64) -> Result<(Self, Handshake), OpenError> {
        let mut consensus = consensus;
        let mut standing = consensus.standing();
        let committed = engine.status().committed;
        let ahead = |standing: &Standing| committed.height > standing.last.map_or(0, |last| last.height);
        if ahead(&standing) && consensus.adopt(&committed)? {
            standing = consensus.standing();
        }
        let last = standing.last.map_or(0, |last| last.height);
        let there = engine.committed_at(last);
        if ahead(&standing) && there.is_none() {
            return Err(OpenError::Ahead { state: committed.height, log: last });
        }
        let done = handshake(&engine.status(), &standing, there.as_ref())?;
        match done {
            Handshake::Rewind { to, height } => {
                engine.rewind(Ticket::default(), to).map_err(|why| OpenError::refused(height, why))?;
                // Completions of the rewind concern only this call.
                while engine.poll(BATCH, &mut Vec::new()) > 0 {}
            }
            Handshake::Replay(_) => Self::same_block(&engine.status(), &standing, &mut consensus)?,
            Handshake::Start | Handshake::Sync { .. } => {}
        }
        consensus.resumed(&engine.status().committed);
        let pipeline = Pipeline::new(consensus.config(), &engine.status());
        let mut node = Self { engine, consensus, pipeline, due: None, effects: VecDeque::new(), halted: None };
        if let (Handshake::Replay(range), Some(last)) = (&done, standing.last) {
            // Ordered and not seen yet: the pipeline requests the blocks from the bottom up, as many as it can hold.
            let proof = node.consensus.block(*range.end())?.map(|block| block.proof).unwrap_or_default();
            node.tell(ConsensusEvent::Ordered { tip: last.id, height: last.height, proof });
        }
        node.poll(now_us)?;
        Ok((node, done))
    }

    /// Fails if consensus decided another block at the engine's committed height, as far as consensus remembers.
    fn same_block(status: &EngineStatus, standing: &Standing, consensus: &mut C) -> Result<(), FatalCause> {
        let committed = &status.committed;
        if committed.height < standing.first.max(1) {
            return Ok(());
        }
        match consensus.block(committed.height)? {
            Some(block) if block.meta.id != committed.meta.block => Err(FatalCause::Fork { height: committed.height }),
            _ => Ok(()),
        }
    }

    /// Does all pending work. Returns true if there was any.
    ///
    /// # Errors
    /// The cause for which the node must stop. Every later call fails with it.
    pub fn poll(&mut self, now_us: u64) -> Result<bool, FatalCause> {
        if let Some(cause) = &self.halted {
            return Err(cause.clone());
        }
        let mut active = self.carry_out(now_us)?;
        let mut completions = Vec::new();
        while self.engine.poll(BATCH, &mut completions) > 0 {
            for event in completions.drain(..) {
                self.completed(event);
            }
            active = self.carry_out(now_us)? || active;
        }
        if self.due.is_some_and(|due| due <= now_us) {
            self.due = None;
            let mut effects = Vec::new();
            self.pipeline.on_timer(&mut effects);
            self.effects.extend(effects);
            active = self.carry_out(now_us)? || active;
        }
        for _ in 0..BATCH {
            let Some(event) = self.consensus.next(now_us)? else { break };
            self.tell(event);
            self.carry_out(now_us)?;
            active = true;
        }
        Ok(active)
    }

    /// Latest time for the next call of [`Node::poll`], on the caller's clock.
    #[must_use]
    pub const fn due(&self) -> Option<u64> {
        self.due
    }

    /// The engine.
    #[must_use]
    pub const fn engine(&self) -> &Arc<E> {
        &self.engine
    }

    /// The consensus.
    pub const fn consensus(&mut self) -> &mut C {
        &mut self.consensus
    }

    /// The consensus, read only.
    #[must_use]
    pub const fn peek(&self) -> &C {
        &self.consensus
    }

    /// Ends the node and gives the consensus back.
    #[must_use]
    pub fn close(self) -> C {
        self.consensus
    }

    fn tell(&mut self, event: ConsensusEvent) {
        let mut effects = Vec::new();
        self.pipeline.on_consensus(event, &mut effects);
        self.effects.extend(effects);
    }

    fn completed(&mut self, event: EngineEvent) {
        let mut effects = Vec::new();
        self.pipeline.on_engine(event, &mut effects);
        self.effects.extend(effects);
    }

    fn carry_out(&mut self, now_us: u64) -> Result<bool, FatalCause> {
        let mut active = false;
        while let Some(effect) = self.effects.pop_front() {
            active = true;
            match call(self.engine.as_ref(), effect) {
                Called::Accepted => {}
                Called::Refused(event) => self.completed(event),
                Called::NotForEngine(Effect::SetTimer(us)) => self.due = Some(now_us.saturating_add(us)),
                Called::NotForEngine(Effect::FetchDecided(heights)) => self.fetch(heights)?,
                Called::NotForEngine(Effect::Halt(incident)) => {
                    let cause = incident.cause.clone();
                    self.halted = Some(cause.clone());
                    self.consensus.apply(Effect::Halt(incident))?;
                    return Err(cause);
                }
                Called::NotForEngine(effect) => self.consensus.apply(effect)?,
            }
        }
        Ok(active)
    }

    /// Replays decided blocks. The pipeline requests missing heights again later.
    fn fetch(&mut self, heights: core::ops::RangeInclusive<u64>) -> Result<(), FatalCause> {
        for height in heights {
            let Some(block) = self.consensus.block(height)? else { break };
            let (meta, tip) = (block.meta, block.meta.id);
            self.tell(ConsensusEvent::Proposed { meta, env: block.env, payload: PayloadRef::Here(block.payload) });
            self.tell(ConsensusEvent::Ordered { tip, height, proof: block.proof });
            if let Some(certificate) = block.certificate {
                let (digest, bytes) = (certificate.digest, certificate.bytes);
                self.tell(ConsensusEvent::StateCertificate { id: tip, height, digest, bytes });
            }
        }
        Ok(())
    }
}
