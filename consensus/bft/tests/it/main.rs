//! Protocols against latencies on paper, every reachable state at small n, random worlds with faults, and broken rules.

mod autobahn;
mod exhaustive;
mod fuzz;
mod golden;
mod junk;
mod leaving;
mod rounds;
mod safety;
mod attacks;
mod bounds;
mod sbft;
mod lab;
mod manual;
mod patience;
