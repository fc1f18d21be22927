//! Counters of a node, in the text format of Prometheus.
//!
//! ```text
//!  Metrics: the page; chain, producer, consensus client, store, pool
//!   ├ Rpc       requests and connections of JSON-RPC
//!   ├ Abci      calls of CometBFT
//!   ├ Stages    observer of the engine's stages
//!   ├ replica   status of a replica, read when the page is
//!   └ system    figures of this process
//! ```

mod page;
mod replica;
mod rpc;
mod abci;
mod stages;
mod system;
mod families;

pub(crate) use page::Metrics;
