//! The promises of the loads, with stock revm as the oracle; and the reading of fixtures.

mod common;
mod execution;
mod fixtures;
mod market;
mod pool;
mod signed;
mod stream;
mod token;
