//! From a delta to the next state.

mod apply;
mod core;
mod effect;
mod layered;
mod layers;
mod link;
mod on_state;
mod past;
mod prepare;
mod resolve;
mod rollback;
mod sort;
mod steps;

pub(crate) use core::{ChainBlock, Core};
pub(crate) use effect::Effect;
pub(crate) use layered::Over;
pub(crate) use layers::{Layer, Overlay};
pub(crate) use past::Past;
pub(crate) use rollback::Undo;
