//! A reference engine in memory: the whole contract of [`phalanx_engine_api::ExecutionEngine`] with staged siblings, a disk that
//! crashes, and work that takes a given time.
//!
//! The engine shares its bookkeeping with every other one, [`phalanx_engine_api::desk`]. The model covers the disk, the
//! virtual machine and time.
//!
//! The engine runs no thread. [`ModelEngine::start`] returns the work that its three resources (executor, hasher, disk) can
//! begin, with its cost, and [`ModelEngine::finish`] completes it. A simulation puts virtual time between the two,
//! [`ModelEngine::run`] none.

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
