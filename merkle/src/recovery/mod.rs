//! From a log back to the state: entries in order, hashed in parallel a batch at a time.

mod restore;
mod recover;
mod replay;
mod feed;
pub(crate) mod checkpoint;

pub(crate) use checkpoint::Job;
pub use checkpoint::{Ignored, Opened};
pub(crate) use recover::{Recovered, Recovery};
