//! `net` and `replica`: real replicas as processes on this machine, driven and compared; and one of them.

mod run;
mod deal;
mod sample;
mod written;
mod report;
mod serial;
mod load;
mod processes;
mod faults;
mod distances;
mod args;
mod replica;
mod snapshot;
mod engine;
mod file;

pub(crate) use args::NetArgs;
pub(crate) use file::{MemberFile, NetworkFile, beside, later, read};
pub(crate) use replica::ReplicaArgs;
pub(super) use written::net_schema;
#[cfg(feature = "node")]
pub(crate) use {
    deal::{be_of, deal, free_addresses, member},
    file::{OwnReplica, beginning},
};
