//! `explain`: the parallelism of a block: critical path, hottest keys, mispredictions.

mod written;
mod explanation;
mod source;
mod graph;

pub(crate) use explanation::ExplainArgs;
pub(super) use written::schema;
