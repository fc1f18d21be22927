//! From a log back to the state: entries in order, hashed in parallel a batch at a time.

pub(crate) mod checkpoint;
mod feed;
mod recover;
mod replay;
mod restore;

pub(crate) use checkpoint::Job;
pub use checkpoint::{Ignored, Opened};
pub(crate) use recover::{From, Replayed};
