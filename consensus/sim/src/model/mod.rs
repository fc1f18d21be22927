//! A reference engine in memory: the whole contract of [`phalanx_engine_api::Engine`] with staged siblings, a disk that
//! crashes, and work that takes as long as it is told.
//!
//! Its bookkeeping is that of every engine, [`phalanx_engine_api::desk`]; what is modelled is the disk, the virtual machine
//! and time.
//!
//! It runs no thread. [`ModelEngine::start`] hands out the work that its three resources (executor, hasher, disk) can begin,
//! with its cost, and [`ModelEngine::finish`] completes it: a simulation puts virtual time between, [`ModelEngine::run`]
//! none.

mod disk;
mod engine;
mod inner;
mod machine;
mod state;

pub use crate::work::{Costs, Work};
pub use disk::Disk;
pub use engine::ModelEngine;
pub use machine::ModelMachine;
pub use state::{invalid_tx, model_tx, weight};
