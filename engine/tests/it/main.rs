//! Parallel execution equals sequential revm: results, receipts, state and root, for every thread count.

mod adversarial;
mod bad_input;
mod bounds;
mod common;
mod fuzz;
mod kit;
mod lifecycle;
mod mainnet;
mod transfers;
mod traps;
