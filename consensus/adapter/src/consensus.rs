//! The trait that binds a consensus to a node.

use alloy_primitives::Bytes;
use phalanx_engine_api::{BlockEnv, BlockId, CommittedTip, FatalCause, Payload};
use phalanx_pipeline::{BlockMeta, Certificate, Config, ConsensusEvent, Effect};
use std::sync::Arc;

/// A decided block, for replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedBlock {
    /// Place of the block.
    pub meta: BlockMeta,
    /// Environment of the block.
    pub env: BlockEnv,
    /// Transactions of the block.
    pub payload: Arc<Payload>,
    /// Proof that the block is decided.
    pub proof: Bytes,
    /// Certificate of the result, if the chain has certificates and this one exists already.
    pub certificate: Option<Certificate>,
}

/// The newest decided block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Height of the block.
    pub height: u64,
    /// Name of the block.
    pub id: BlockId,
}

/// Position of consensus, from its own log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Oldest height that consensus can replay. Lower heights were pruned.
    pub first: u64,
    /// Newest decided block; `None` before the first.
    pub last: Option<Decided>,
}

/// A consensus that drives an engine.
pub trait Consensus {
    /// Configuration of the pipeline.
    fn config(&self) -> Config;

    /// Position of consensus, from its own log. Called once, at the start.
    fn standing(&self) -> Standing;

    /// Receives the engine's committed block where the own log ends below it, before [`Consensus::resumed`]. Returns true if the log
    /// has everything up to that block, undecided, and now takes it as decided: [`Consensus::standing`] then reaches it. A state is
    /// never ahead of what decided it; a log that lost its end, or that an older version wrote, may be behind.
    ///
    /// # Errors
    /// The cause that makes it impossible to go on.
    fn adopt(&mut self, committed: &CommittedTip) -> Result<bool, FatalCause> {
        let _ = committed;
        Ok(false)
    }

    /// Receives the engine's committed block, once at the start. The engine may be ahead of the acknowledgements: the
    /// power may have failed between a commit and its acknowledgement.
    fn resumed(&mut self, committed: &CommittedTip);

    /// Returns a decided block at or above [`Standing::first`], or `None` above the last. Repeated calls return the
    /// same block.
    ///
    /// # Errors
    /// The cause that makes it impossible to go on.
    fn block(&mut self, height: u64) -> Result<Option<DecidedBlock>, FatalCause>;

    /// Returns the next event, if there is one. `now_us` is the caller's clock.
    ///
    /// # Errors
    /// The cause that makes it impossible to go on.
    fn next(&mut self, now_us: u64) -> Result<Option<ConsensusEvent>, FatalCause>;

    /// Receives an effect that does not address the engine: votes to sign, blocks to acknowledge, payloads to fetch.
    /// Timers and
    /// [`Effect::FetchDecided`] are served by the node.
    ///
    /// # Errors
    /// The cause that makes it impossible to go on.
    fn apply(&mut self, effect: Effect) -> Result<(), FatalCause>;
}
