//! Autobahn against latencies on paper, every reachable state of a slot, random worlds with faults, and broken rules.

mod attacks;
mod exhaustive;
mod golden;
mod safety;
mod world;
