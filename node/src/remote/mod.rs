//! The remote chain: that of another node, from which a chain for development goes on. Its state and its blocks are read when they
//! are needed.
//!
//! ```text
//!  engine, calls ─► state: keys ─► cache, on disk ─► client: batches, tries, pace ─► HTTP or HTTPS
//!  methods ──────────────────── pass ───────────────────┘
//! ```
//!
//! - `found`: the block that the chain goes on from, and the genesis above it; `config`, the settings.
//! - `state`: the state after that block, as the engine reads it.
//! - `answers`: answers of the remote node as values.
//! - `cache`: values that were read, by block.
//! - `client`: JSON-RPC of the remote node, and `tries`, which of its failures are tried again, and when.

mod answers;
mod cache;
mod client;
mod config;
mod found;
mod state;
mod tries;

pub(crate) use client::RemoteError;
pub use config::RemoteConfig;
pub use found::Remote;
