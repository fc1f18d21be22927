//! The Engine API: a consensus client chooses the head of the chain, and proposes its blocks.
//!
//! ```text
//!  consensus client ─► rpc ─► Handle ─orders─► Client, one thread ─► Steps: submit, stage, commit, rewind ─► service
//!                                                │ Tree: payloads beside the chain, and invalid ones; Journal: their files
//!                                      ▲         │ Jobs: blocks that are built until they are fetched
//!                                      └─ Shelf ◄┤ Shelf: blocks that can be fetched while the thread is busy
//!                                                └ Marks: safe and finalised block, durable
//! ```
//!
//! A payload is durable before it is answered, and executed as soon as it extends the chain, or a payload that does. A fork choice
//! commits it. A payload on an earlier
//! block of the chain is kept, and executed once it is chosen: then the chain goes back to that block first. Methods, errors and
//! states of a payload are those of <https://github.com/ethereum/execution-apis/tree/main/src/engine>.

mod client;
mod choose;
mod reorganise;
mod jobs;
mod take;
mod built;
mod handle;
mod waiting;
mod shelf;
mod marks;
mod received;
mod tree;
mod journal;
mod sidecars;
mod proposed;
mod blobs;
mod status;
mod fault;
mod version;
mod secret;

pub(crate) use blobs::{with_cells, with_proofs};
pub(crate) use built::Envelope;
pub(crate) use client::Client;
pub(crate) use fault::Fault;
pub(crate) use handle::{Handle, PATIENCE};
pub(crate) use jobs::Shape;
pub(crate) use received::{By, Received, receive};
pub(crate) use secret::Secret;
pub(crate) use status::{Status, Updated};
pub(crate) use version::Version;
