//! From a delta to the next state: resolve and sort the operations, link neighbours, encode and hash the entries; then
//! apply, or keep as a layer of a fork.
//!
//! ```text
//! resolve ──► sort ──► link ──► prepare ──► effect ──┬─► apply ──► core, undo record
//!                                                    └─► layer ──► overlay (forks)
//! ```

mod core;
mod pins;
mod apply;
mod past;
mod rollback;
mod on_state;
mod layered;
mod layers;
mod steps;
mod prepare;
mod effect;
mod link;
mod resolve;
mod sort;

pub(crate) use core::{ChainBlock, Core};
pub(crate) use effect::Effect;
pub(crate) use layered::Overlaid;
pub(crate) use layers::{Layer, MAX_DEPTH, Overlay, Unapplied};
pub(crate) use past::Past;
pub(crate) use pins::{Pin, Pins};
pub(crate) use rollback::UndoRecord;
