//! The store from outside: it equals a model that hashes everything, its proofs hold, and after any damage to the
//! process or the disk it reopens at a block that it had. One binary, because each is linked with RocksDB.

mod common;

mod golden;
mod lifecycle;
mod model;
mod proofs;
mod transition;
mod vectors;

mod checkpoint;
mod deep_forks;
mod fork_join;
mod locators;
mod metrics;
#[cfg(feature = "rocksdb")]
mod rocks;
mod threads;
mod upkeep;

mod crash;
mod creation;
mod damage;
mod faults;
mod forge;
mod full;
mod lengths;
mod kill;
mod ahead;
mod beside;
mod changes;
mod reading;
mod rings;
mod unlocked;
mod snapshots;
mod streams;
mod sweep;
