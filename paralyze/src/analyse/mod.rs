//! The analyser: predicts each transaction by the cheapest layer that can.
//!
//! `predict.rs` is the order of steps and `rules.rs` the choice of a layer. What no layer predicts is learned from dry runs,
//! token layouts in `layouts.rs` and templates in `teach.rs`; the rest is simulated.

mod predict;

mod rules;

mod layouts;

mod paralyze;

mod doubt;

mod chunk;

mod brief;

pub use brief::{Brief, SenderFilter};
pub use chunk::BATCH_LEN;
pub(crate) use chunk::{Chunk, Pending};
pub use doubt::{DryRuns, may_run_dry};
pub use paralyze::{Layers, ParaLyze};

#[cfg(test)]
mod tests;
