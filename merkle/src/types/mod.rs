//! The vocabulary of the store: names and values that every room uses, and no machinery.

mod config;
mod contents;
mod delta;
mod error;
mod memory_use;
mod fork_join;
mod locator;
mod written;
mod snapshot_error;
mod block_id;
mod code_rule;
mod tail;
mod hash;
mod limits;
mod bytes;
#[doc(hidden)]
pub mod faults;

pub use block_id::BlockId;
pub(crate) use bytes::{copy, same};
pub use code_rule::CodeRule;
pub use config::{Access, Backend, Durability, Memory, Reading, StoreConfig, ThreadStart};
pub use contents::Contents;
pub use delta::Delta;
pub(crate) use delta::{MAX_RUNS, Operation, RUN, Target};
pub use error::Error;
pub(crate) use error::hex;
pub(crate) use faults::{Faults, Step, Verdict};
pub use fork_join::{ForkJoin, ForkJoinObserver};
pub(crate) use hash::prefix;
pub(crate) use limits::{MAX_CODE_LEN, MAX_PAYLOAD_LEN};
pub use locator::Locator;
pub(crate) use locator::Lookup;
pub use memory_use::{CacheUse, MemoryUse, ReadUse};
pub use snapshot_error::SnapshotError;
pub use tail::{Lost, Tail, Torn};
pub(crate) use written::{Links, MAX_SN, Written};
