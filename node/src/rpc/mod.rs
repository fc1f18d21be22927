//! JSON-RPC: methods of wallets, libraries and explorers, over HTTP and WebSocket.
//!
//! Every method is a function of [`api::Api`] and its arguments, and runs on a thread that may wait, unless memory answers it. Calls,
//! traces and log queries take one of a bounded number of places first. Nothing here waits for a block that executes. Sockets and the
//! bytes of messages are the business of `edge`.

mod server;
mod page;
mod visit;
mod websocket;
mod dispatch;
mod reads;
mod subscribe;
mod feed;
mod wait;
mod send;
mod development;
mod wallet;
mod small;
mod blocks;
mod accounts;
mod calls;
mod many;
mod fill;
mod simulate;
mod simulated;
mod transfers;
mod fees;
mod changes;
mod logs;
mod pool;
mod debug;
mod ranges;
mod parity;
mod otterscan;
mod lists;
mod phalanx;
mod proof;
mod witness;
mod engine;
mod remote;
mod traced;
mod replay;
mod keys;
mod geth_tracer;
mod filters;
mod meter;
mod outbox;
mod turns;
mod registry;
mod answer;
mod frames;
mod request;
mod api;
mod convert;
mod keyring;
mod error;
mod args;
mod ids;

pub(crate) use api::Api;
pub(crate) use page::{Pages, serve as serve_pages};
pub(crate) use server::Server;
