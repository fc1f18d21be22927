//! Parallel execution equals sequential revm: results, receipts, state and root, for every thread count; and the rules of
//! chains are Ethereum's.

mod adversarial;
mod bad_input;
mod chain;
mod common;
mod hostile;
mod lifecycle;
mod mainnet;
mod precompile;
mod transfers;
