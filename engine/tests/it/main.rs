//! Parallel execution equals sequential revm: results, receipts, state and root, for every thread count.

mod adversarial;
mod bad_input;
mod common;
mod lifecycle;
mod mainnet;
mod transfers;
