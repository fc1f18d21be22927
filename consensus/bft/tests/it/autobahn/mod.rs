//! Autobahn against latencies on paper, every reachable state of a slot, random worlds with faults, and broken rules.

mod attacks;
mod evidence;
mod exhaustive;
mod walks;
mod golden;
mod safety;
mod views;
mod world;
