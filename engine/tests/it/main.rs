//! Parallel execution equals sequential revm in results, receipts, state and root, for every thread count; and the
//! rules of chains are Ethereum's.

mod transfers;
mod paged;
mod cold;
mod mainnet;
mod foreign;
#[cfg(feature = "alloy-evm")]
mod alloy_evm;
mod adversarial;
mod hostile;
mod bounds;
mod dry_runs;
mod bad_input;
mod fuzz;
mod evm_rules;

mod fast_path;
mod traces;
mod credits;
mod precompile;
mod chain_rules;
mod learning;
mod threads;

mod builder;
mod assembled_ahead;
mod block_access_list;

mod forks;
mod ethereum_roots;
mod roots;
mod lifecycle;
mod node;
mod simulate;
mod service;
mod names;

mod chain;
mod recovery;
mod pool;

mod kit;
