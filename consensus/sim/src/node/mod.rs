//! A validator or fullnode: protocol, pipeline, engine, log and disk, with a crash possible between any two steps.

mod life;
mod pump;
mod chain;
mod propose;
mod power;
mod state;

pub(crate) use state::{Done, Node};
