//! A deterministic simulator for the pipeline: network, disks, engines and consensus as models, time as an integer.
//!
//! ```text
//!  Setup ──► World ──► events in order of (time, number) ──► Validator: bft::Replica + Pipeline + Machine::Engine
//!  (seed)      │                                             Follower:              Pipeline + Machine::Engine
//! //!              ├─► Ledger    invariants, checked after every event
//! //!              ├─► marks     times of every block's stages
//! //!              └─► trace     a hash of all events
//! ```
//!
//! No thread, no clock, no hash map: one seed is one history, and [`World::trace`] names it. The engine is the model
//! ([`model::ModelMachine`]), or that of another [`Machine`]; the world is then as deterministic as that engine.

pub mod zaptos;
pub mod autobahn;
pub mod resilientdb;
pub mod sbft;
pub mod load;
pub mod paper;
mod world;
mod node;
mod shared;
mod ledger;
mod wire;
mod pool;
mod marks;
pub mod model;
mod machine;
mod setup;
pub mod bft;
mod net;
mod regions;
mod work;
mod rng;

pub use ledger::{Ledger, Violation};
pub use machine::{Batch, EngineOf, Machine, Sent, Workshop};
pub use marks::{BlockMarks, Span};
pub use net::{Faults, Partition, Topology, TopologyError};
pub use regions::{REGIONS, RTT_SOURCE};
pub use rng::Rng;
pub use setup::{Behaviour, Crash, Crypto, Load, Setup};
pub use world::World;
