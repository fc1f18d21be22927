//! Executes blocks while consensus still votes on them, and persists them before they are certified.
//!
//! This is Zaptos's parallel pipeline (Algorithm 2) as a state machine: no thread, clock, randomness or I/O. Events of
//! consensus and completions of the engine go in, effects come out, and the same inputs give the same effects in a
//! simulator, a test or a node, which drives it from a loop of its own.
//!
//! ```text
//!              Proposed ──► submit ──► Executed ──► Rooted ──┬──► stage ──► Staged ─┐
//!  consensus   order vote durable ──────────────────────────►┴► state vote          ├──► commit ──► Ack, Forward
//!              Ordered ────► decided: siblings lose            2f+1 votes ► certificate ┘
//! ```
//!
//! With [`Mode::Baseline`] the stages of one block follow each other, as in Aptos before Zaptos (Algorithm 1): execution
//! waits for the order, the state vote for the execution, the write for the certificate.
//!
//! Guarantees, if consensus keeps its promises, and the place of each: at most one block per height is committed, in
//! order (`core/commit.rs`). A state vote leaves after "executed and order vote durable" or "executed and ordered",
//! whichever comes first (`core/step.rs`). A certificate that names another result stops the node (`core/votes.rs`).
//! Every table is bounded by [`Config`].

mod call;
mod core;
mod event;
mod config;

pub use call::{Called, call};
pub use config::{Committee, Config, Mode, OrderVote, Role, StateRule, Window};
pub use core::Pipeline;
pub use event::{
    Backpressure, BlockMeta, Certificate, ConsensusEvent, Downstream, Effect, Incident, PayloadRef, Verdict,
};
