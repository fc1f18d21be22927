//! Parallel execution equals sequential revm in results, receipts, state and root, for every thread count; and the
//! rules of chains are Ethereum's.

mod adversarial;
mod ahead;
mod bad_input;
mod block_access_list;
mod bounds;
mod branches;
mod builder;
mod chain;
mod fast_path;
mod fuzz;
mod hostile;
mod kit;
mod learning;
mod lifecycle;
mod mainnet;
mod pool;
mod precompile;
mod recovery;
mod service;
mod threads;
mod traces;
mod transfers;
mod evm_rules;
mod unseen;
