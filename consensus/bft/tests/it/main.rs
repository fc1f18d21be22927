//! Protocols against latencies on paper, every reachable state at small n, random worlds with faults, and broken rules.

mod autobahn;
mod exhaustive;
mod choices;
mod fuzz;
mod golden;
mod histories;
mod junk;
mod leaving;
mod rounds;
mod safety;
mod attacks;
mod bounds;
mod window;
mod proofs;
mod sbft;
mod lab;
mod manual;
mod patience;
