//! The benchmarks: each takes a config and returns its figures.

pub mod sweep;
pub mod adversary;
pub mod build;
pub mod plan;
pub mod workload;
pub mod schedule;
pub mod store;
pub mod recovery;
pub mod input;

use crate::written::Named;

/// Schemas of what the benchmarks write.
pub(crate) fn schemas() -> Vec<Named> {
    let mut all = vec![sweep::schema(), adversary::schema(), store::schema(), recovery::schema()];
    all.extend(schedule::schemas());
    all
}
