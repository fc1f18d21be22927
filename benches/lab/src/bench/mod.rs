//! The benchmarks: each takes a config and returns its figures.

pub mod sweep;
pub mod adversary;
pub mod build;
pub mod workload;
pub mod schedule;
pub mod store;
