//! The evaluation of *Autobahn: Seamless high speed BFT*: wide-area replicas under an open loop, with blips.
//!
//! Each replica runs its real state machine behind two stations: one takes transactions in (deserialises and stores them), one
//! handles messages and signatures. Links have the paper's round-trip times, nodes a bandwidth. Clients send at a constant rate to
//! the replica of their region; latency ends when that replica can execute.
//!
//! ```text
//! clients ─► take in ─► pool ─► protocol ─► egress ─► link ─► take in ─► protocol ─► … ─► ready to execute
//! ```

mod figures;
mod paper;
mod world;
mod clients;
mod certify;
mod constants;
mod setting;

pub use figures::{Figure, Point};
pub use setting::{Answers, Blip, Costs, LINKS, Order, Outcome, REGIONS, Setting};
pub use world::run;
