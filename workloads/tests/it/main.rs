//! What the loads promise, with stock revm as the judge; and what is read from fixtures.

mod common;
mod execution;
mod fixtures;
mod market;
mod pool;
mod signed;
mod stream;
mod token;
