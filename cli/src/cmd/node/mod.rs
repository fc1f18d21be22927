//! `node`: a chain that wallets and libraries talk to.

mod run;
mod sources;
mod args;
mod consensus;
mod again;
mod engine_api;
mod development;
mod remote;
mod service;

pub(crate) use args::{NodeArgs, production};
pub(crate) use consensus::Consensus;
pub(crate) use sources::expand;
