//! SBFT: golden latencies, every reachable state, random worlds, attacks, junk.

mod golden;
mod paths;
mod safety;
mod attacks;
mod choices;
mod restarts;
mod exhaustive;
mod walks;
mod views;
mod fuzz;
pub(super) mod lab;
