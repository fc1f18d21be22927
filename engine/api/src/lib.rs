//! Requests that consensus makes of an engine: traits and types, without async and without an engine.
//!
//! ```text
//!  consensus                    engine
//!     │ submit(candidate) ────────► queued ─► Executed ─► Rooted        speculative, in memory, siblings allowed
//!     │ stage(id) ────────────────────────────────────────► Staged      on disk, invisible to readers
//!     │ commit(id) ─────────────────────────────────────────► Committed visible, with the consensus cursor, in one write
//!     │ keep_only(leaves) ────────► Dropped                             losing blocks are gone, their transactions are returned
//! ```
//!
//! Four rules carry the design; [`ExecutionEngine`] has the exact contract of each call.
//!
//! 1. **Identity has no round.** An [`ExecId`] covers parent, environment, policy and payload and nothing of consensus, so a
//!    payload proposed again in a later view is not executed again, and two proposals of one height never share a slot.
//! 2. **Nothing is cancelled.** A running execution cannot be stopped safely. Requests carry a [`Ticket`] of the
//!    caller's choice, completions repeat it, and a caller that has moved on ignores old ones.
//! 3. **Every call may be repeated.** After a crash, or in doubt, repeating a call is always right.
//! 4. **Five ways to fail** ([`Failure`]), each with one answer: repeat it, reject it for ever, forget it, read it elsewhere,
//!    stop.
//!
//! ```
//! use alloy_primitives::Bytes;
//! use phalanx_engine_api::{BlockEnv, Candidate, ExecId, Payload, TxPolicy};
//!
//! let payload = Payload::new(vec![Bytes::from_static(b"pay alice"), Bytes::from_static(b"pay bob")]);
//! let env = BlockEnv { height: 1, ..BlockEnv::default() };
//! let block = Candidate::new(1, ExecId::GENESIS, env, TxPolicy::Strict, payload.clone().into());
//! // The same block in a later view is the same execution; another environment is another one.
//! let again = Candidate::new(1, ExecId::GENESIS, env, TxPolicy::Strict, payload.clone().into());
//! let later = Candidate::new(1, ExecId::GENESIS, BlockEnv { timestamp_ms: 7, ..env }, TxPolicy::Strict, payload.into());
//! assert_eq!(block.id(), again.id());
//! assert_ne!(block.id(), later.id());
//! ```

pub mod desk;

mod engine;
mod build;
mod event;
mod read;
mod status;
mod snapshot;
mod failure;
mod block;
mod id;
mod env;

pub use block::{Candidate, ExecOutcome, Payload, TxStatus, fates, transaction_hash, transactions_root};
pub use build::{Build, BuildHandle, BuildRequest, BuiltCandidate};
pub use engine::{ExecutionEngine, Priority, Waker};
pub use env::{BlockEnv, TxPolicy};
pub use event::{EngineEvent, Operation};
pub use failure::{Failure, FatalCause, InvalidCause, RetryCause};
pub use id::{BlockId, ExecId, Ticket};
pub use phalanx_merkle_proof::BlockResult;
pub use read::{AccountView, Proof, ProofQuery, Prove, ReadState, StateView, ViewAt};
pub use snapshot::{Applied, Offer, Offered};
pub use status::{BlockBudget, CommitMeta, CommittedTip, EngineStatus, Limits, Pressure};
