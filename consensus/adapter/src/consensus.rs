//! The trait.

use alloy_primitives::Bytes;
use phalanx_engine_api::{BlockEnv, BlockId, Committed, FatalCause, Payload};
use phalanx_pipeline::{BlockMeta, Certificate, Config, ConsensusEvent, Effect};
use std::sync::Arc;

/// A decided block, to be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedBlock {
    /// Its place.
    pub meta: BlockMeta,
    /// Its environment.
    pub env: BlockEnv,
    /// Its transactions.
    pub payload: Arc<Payload>,
    /// Proof that it is decided.
    pub proof: Bytes,
    /// Certificate of its result, if the chain has them and this one is there already.
    pub certificate: Option<Certificate>,
}

/// The newest decided block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Its height.
    pub height: u64,
    /// Its name.
    pub id: BlockId,
}

/// Where consensus stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The oldest height it can replay. What is below was pruned.
    pub first: u64,
    /// The newest decided block; none before the first.
    pub last: Option<Decided>,
}

/// A consensus that drives an engine.
pub trait Consensus {
    /// What kind of consensus this is.
    fn config(&self) -> Config;

    /// Where it stands, from its own log. Asked once, at the start.
    fn standing(&self) -> Standing;

    /// What the engine has committed, told once at the start. It may be more than was acknowledged: the power may have gone
    /// between the two.
    fn resumed(&mut self, committed: &Committed);

    /// A decided block at or above [`Standing::first`], or none above the last. Asked again, it gives the same.
    ///
    /// # Errors
    /// What makes it impossible to go on.
    fn block(&mut self, height: u64) -> Result<Option<DecidedBlock>, FatalCause>;

    /// The next event, if there is one. `now_us` is the caller's clock.
    ///
    /// # Errors
    /// What makes it impossible to go on.
    fn next(&mut self, now_us: u64) -> Result<Option<ConsensusEvent>, FatalCause>;

    /// An effect that is not for the engine: votes to sign, blocks to acknowledge, payloads to fetch. Timers and
    /// [`Effect::FetchDecided`] are served by the node.
    ///
    /// # Errors
    /// What makes it impossible to go on.
    fn apply(&mut self, effect: Effect) -> Result<(), FatalCause>;
}
