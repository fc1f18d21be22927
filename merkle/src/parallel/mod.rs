//! Work that threads share, and the helpers that do it.

mod par;
mod helpers;

pub(crate) use helpers::fork_join;
pub(crate) use par::{Par, WORTH};
