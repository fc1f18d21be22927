//! A protocol of a hundred lines in every world: what a new one costs.

mod toy;
mod worlds;
