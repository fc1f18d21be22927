//! The rules of chains, against Ethereum's own tests, mainnet's history and alloy's constants.

pub(crate) mod blockchain;
mod headers;
mod mainnet;
mod ommers;
mod schedule;
mod steps;
mod transactions;
