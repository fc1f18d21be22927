//! Work that threads share: a parallel map, and fork-join that is safe under a lock.

mod par;
mod helpers;

pub(crate) use helpers::fork_join;
pub(crate) use par::{Par, WORTH};
