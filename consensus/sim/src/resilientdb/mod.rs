//! The evaluation of *Permissioned Blockchain Through the Looking Glass*: its sweeps, and its numbers beside ours.

mod paper;
mod figures;

pub use figures::{Figure, Point};
