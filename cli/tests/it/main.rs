//! The `phalanx` command as a process: flags, two streams and an exit code.

mod command;
mod fixtures;
mod reference;
#[cfg(feature = "node")]
mod payers;
#[cfg(feature = "node")]
mod rpc;

mod adversary;
mod building;
mod compare;
mod conformance;
mod consensus;
mod copies;
mod contract;
mod docs;
mod inputs;
mod insight;
mod interrupted;
mod keys;
mod killed;
mod looks;
mod markets;
mod memory;
mod members;
mod net;
#[cfg(feature = "node")]
mod localnet;
#[cfg(feature = "node")]
mod node;
mod outputs;
mod pace;
#[cfg(feature = "node")]
mod fetch;
mod replay;
mod roots;
mod schema;
mod services;
mod stores;
mod tools;
mod usage;

#[cfg(target_os = "linux")]
mod disks;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
mod pinned;
