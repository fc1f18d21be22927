//! The host: feeds the protocol, performs its effects when their records are durable, and speaks to the pipeline.
//!
//! ```text
//!  input, consensus ─► effect ─► catch_up, handover ─► order ─► vote, request, epoch ─► call ─► outbox
//! ```
//!
//! Each calls those to its right, or beside it in one direction. `speak` is beside `order`, and `retained` and `start` hold what others read.

mod start;
mod input;
mod consensus;
mod effect;
mod catch_up;
mod handover;
mod order;
mod vote;
mod request;
mod epoch;
mod speak;
mod retained;
mod call;
mod outbox;

use crate::{
    chain::Chain, config::HostConfig, epoch::Epoch, pool::Pool, silence::Silence, transfer::CatchUp, votes::Votes,
};
use handover::Handover;
use outbox::Outbox;
use phalanx_bft::{Budgets, Index, Micros, Protocol, Slot};
use phalanx_engine_api::FatalCause;
use phalanx_keys::Scheme;
use request::Requests;
use std::sync::Arc;

/// Blocks in one answer to a replica that is behind.
const MOST_BLOCKS: usize = 64;

/// Length of the decided blocks that are retained below the stable checkpoint, in bytes: memory, and the most of a transfer.
const MOST_RETAINED_BYTES: usize = 256 << 20;

/// A replica of protocol `P` without I/O. The shell verifies, delivers, writes and keeps time; [`phalanx_adapter::Node`] joins the
/// host with a pipeline and an engine.
pub struct Host<P: Protocol> {
    me: Index,
    config: HostConfig,
    protocol_config: Arc<P::Config>,
    scheme: Arc<dyn Scheme>,
    /// Records of the protocol, until the engine has told where it is.
    records: Vec<P::Record>,
    protocol: Option<P>,
    now: Micros,
    outbox: Outbox<P>,
    chain: Chain,
    /// Height of the newest acknowledged block.
    committed: Slot,
    votes: Votes,
    /// True while the timer of own votes runs.
    votes_run: bool,
    pool: Pool,
    requests: Requests,
    budgets: Budgets,
    handover: Handover,
    catch_up: CatchUp,
    epoch: Epoch,
    /// `None` for a replica that votes.
    silence: Option<Silence>,
    fatal: Option<FatalCause>,
}

impl<P: Protocol> core::fmt::Debug for Host<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Host").field("me", &self.me).field("decided", &self.chain.decided()).finish_non_exhaustive()
    }
}
