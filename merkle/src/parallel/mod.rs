//! Work that threads share, and the helpers that do it.

mod helpers;
mod par;

pub(crate) use helpers::share;
pub(crate) use par::{Par, WORTH};
