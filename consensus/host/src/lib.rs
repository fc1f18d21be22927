//! A replica without I/O: an ordering protocol, its keys and its log, joined to the pipeline.
//!
//! ```text
//!  shell ──frames, timers, durable──► Host<P> ──Out──► effects in the order of their records ──► Action ──► shell
//!                                       │  ▲
//!                        ConsensusEvent ▼  │ Effect            phalanx_adapter::Node
//!                                     Pipeline ◄──► Engine
//! ```
//!
//! The host implements [`phalanx_adapter::Consensus`], so that handshake, replay and conformance kit apply. It turns slots into
//! blocks whose names and environments follow from the order alone, votes on results by the rule of
//! [`phalanx_bft::StateVotes`], and catches up from any peer: decided blocks are believed once they lead to the execution that a
//! checkpoint names.
//!
//! Members change by a value in the order ([`SignedChange`]). Each epoch is an instance of the protocol of its own, with its own domain,
//! whose slot 1 is the block above the [`Boundary`]: no protocol knows of epochs.

mod host;
mod action;
mod record;
mod epoch;
mod boundary;
mod certified;
mod config;
mod votes;
mod silence;
mod transfer;
mod chain;
mod pool;
mod change;
mod proof;
mod frame;

pub use action::{Action, HostTimer};
pub use boundary::Boundary;
pub use certified::{Anchor, Certified};
pub use chain::{BlockRules, Retained, Tip};
pub use change::{Change, ChangeError, SignedChange};
pub use config::{Content, HostConfig};
pub use frame::{Blocks, Filled, Frame, Reached, StateVote, WantBlocks};
pub use host::Host;
pub use proof::{StateProof, certifies};
pub use record::HostRecord;
