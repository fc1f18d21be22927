//! The vocabulary of all rooms: blocks as they come in, outcomes, errors, choices, observers. Nothing here executes.

mod access_list;
mod candidate;
mod config;
mod edit;
mod error;
mod faults;
mod fees;
mod foreign;
mod gas;
mod observer;
mod outcome;
mod payload;
mod thread_role;
mod too_wide;
mod txs;

pub use access_list::{AccessListFault, BlockAccessList, ChangedValue};
pub use candidate::{CandidateTx, Transaction};
#[cfg(test)]
pub(crate) use config::DEFAULT_CODE_CACHE;
pub(crate) use config::is_supported;
pub use config::{Executor, Invalid, Order, RootKind, Traces, Tuning};
pub use edit::{Edit, Edited};
pub use error::Error;
#[cfg(feature = "seeded-faults")]
pub use faults::Fault;
#[cfg(not(feature = "seeded-faults"))]
pub(crate) use faults::Fault;
pub(crate) use fees::{paid, payments, reward};
pub use foreign::{ForeignError, ForeignItem};
pub(crate) use gas::{GasRoom, GasRules, GasUse};
pub use observer::{Observer, Stage, Unobserved};
pub(crate) use observer::{StoreStage, observe, observe_fork};
pub use outcome::Outcome;
pub(crate) use outcome::{prefetch_contents, prefetch_logs};
pub use payload::{BlockError, Hints, RecoveredBlock};
pub use thread_role::ThreadRole;
pub(crate) use thread_role::ThreadStart;
pub use too_wide::TooWide;
pub(crate) use txs::Txs;
