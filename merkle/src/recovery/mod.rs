//! From a log, and perhaps a checkpoint, back to the state: finds the chain, restores the checkpoint, and replays and
//! checks the blocks behind it.

mod restore;
mod recover;
mod replay;
mod feed;
pub(crate) mod checkpoint;

pub(crate) use checkpoint::Job;
pub use checkpoint::{Ignored, Opened};
pub(crate) use recover::{Recovered, Recovery};
