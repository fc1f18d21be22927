//! Byzantine fault tolerant ordering protocols as state machines: no I/O, clock, thread or randomness.
//!
//! A host feeds a [`Protocol`] with verified messages, timers and inputs, and performs the effects that come out, in order. Effects
//! behind an [`Out::Persist`] wait until its record is durable; that is how a vote never leaves before it survives a crash.
//!
//! ```text
//!            Checked<Msg>, timers, Input                    Out: Persist, Send, Timer, Work,
//! host ─────────────────────────────────► Protocol ───────► Proposed, OrderVoted, Decided, Stable, Want, Evidence
//! ```
//!
//! ```
//! use phalanx_bft::{Base, Batch, Domain, Index, Input, Out, Protocol, Quorums, pbft::{Config, Pbft}};
//! use std::sync::Arc;
//!
//! // One replica is its own quorum.
//! let config = Arc::new(Config::new(Quorums::new(1, 0)?, Domain::default()));
//! let mut out = Vec::new();
//! let mut replica = Pbft::open(Index(0), config, Base::default(), &[], &mut out);
//! let batch = Batch::new(1_700_000_000_000, Default::default(), vec![b"a transaction".into()]);
//! replica.on_input(0, Input::Batch(batch.clone()), &mut out);
//! let decided = out.iter().any(|o| matches!(o, Out::Decided { slot: 1, batch: Some(b) } if *b == batch));
//! assert!(decided);
//! # Ok::<(), phalanx_bft::QuorumError>(())
//! ```

pub mod autobahn;
pub mod baseline;
pub mod lanes;
pub mod pbft;
pub mod rounds;
pub mod sbft;

mod core;

#[cfg(feature = "mutations")]
pub use core::Impatience;
pub use core::{
    Base, Batch, Budgets, Checked, Claim, ConfigError, Crypto, Domain, Group, Index, Input, Lean, MAX_REPLICAS,
    Message, Micros, NULL, Out, Outs, Protocol, QuorumError, Quorums, Reach, ReplicaSet, Signed, Slot, StateVotes,
    Statement, Tally, To, View, Want,
};
