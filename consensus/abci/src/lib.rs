//! ABCI 2.0 application: CometBFT orders blocks, an engine of [`phalanx_engine_api`] executes them.
//!
//! ```text
//!  CometBFT ──TCP, four connections──► server ─► frame ─► app ─► driver, core ──submit, stage, commit──► engine
//!                                                          │       ◄──────────Rooted, Staged, Committed──┘
//!                                                          └─► host: pool, block environment, block store
//! ```
//!
//! A proposed block is executed while validators vote on it. FinalizeBlock stages it, and **only Commit makes it the state**:
//! CometBFT saves the response to FinalizeBlock after that call and before Commit, so an engine that is durable earlier could
//! be ahead of a CometBFT that has no response saved, which then refuses to start. The app hash is the state root after the
//! block. A vote extension carries the digest of the block's outcome; if more than two thirds of the power have
//! another digest than this node's in the checked votes of the last commit, the node halts and keeps everything for a report.
//!
//! The pipeline of the other consensus protocols has no part in this: CometBFT handles one height at a time, replays by
//! itself, and names the moment of the commit. No async, and no thread but those of the connections.
//!
//! Rooms, from the top of the house to its bottom; a room imports only rooms below it:
//!
//! - `conformance`: CometBFT as a script, for tests of a host.
//! - `server`: threads and sockets.
//! - `app`: one call after the other.
//! - `mempool`: calls of the application's mempool, which later versions of CometBFT have.
//! - `join`: snapshots, for a node that joins the chain by one and for those that have it.
//! - `driver`: the core against the engine.
//! - `core`: the life of the block under decision, without clock, thread or engine.
//! - `votes`: digests that validators have voted for.
//! - `answers`: answers out of the engine's results.
//! - `host`: the node around the application.
//! - `header`: fields of a block that CometBFT fixes, out of its messages.
//! - `error`: calls that are refused, and reasons to halt.
//! - `frame`: messages on a stream.

pub mod conformance;
mod server;
mod app;
mod mempool;
mod join;
mod driver;
mod core;
mod votes;
mod answers;
mod host;
mod header;
mod error;
pub mod frame;

pub use app::App;
pub use error::{CallError, Divergence, Halt};
pub use header::Header;
pub use host::{Host, Read, Refused};
pub use join::Joiner;
pub use mempool::{
    MempoolRequest, MempoolResponse, RequestInsertTx, RequestReapTxs, ResponseInsertTx, ResponseReapTxs,
};
pub use phalanx_engine_api::{Applied, Offer, Offered};
pub use server::Server;
/// Messages of ABCI for CometBFT v0.38; v0.39 and v0.40 have those of [`MempoolRequest`] as well.
pub use tendermint_proto::v0_38::abci as proto;
