//! SBFT's evaluation: five protocols among 193 to 209 replicas on a continent and around the world, and the paper's numbers
//! beside ours.
//!
//! ```text
//! client ─► primary ─► blocks of waiting requests ─► the real state machine of each replica ─► execution in order ─► client
//!             │                    processor, cryptography thread, network interface: a line each
//!             └── latencies between regions: measured tables
//! ```
//!
//! The state machines are those of `phalanx-bft`. Signatures are neither made nor checked, they take their time.

mod world;
mod setting;
mod topology;
mod figures;
mod paper;

pub use figures::{Figure, Point};
pub use setting::{Costs, Outcome, Setting, Variant, Workload};
pub use topology::{SOURCE, Topology};
pub use world::run;
