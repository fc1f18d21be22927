//! What saves reading the log when a store is opened: the tree, and where the state is on disk the index, as they were
//! after some block. The log from there on does the rest.
//!
//! ```text
//! checkpoint = head, noted*, twigs*, young, slots*, extents*, end          frames as in `record`, each with a checksum
//! head       = "PHXC" || params || block id || height || root || shape || whether slots are there
//! end        = number of frames before it
//! ```
//!
//! It is written beside the running store from a copy that shares the index's pages, after the block and everything before
//! it is durable, to a file of its own that takes the name `checkpoint` once as many blocks follow as the store can take
//! back. It says nothing that the log does not say, so one that is torn, damaged or of another log is passed over.

mod job;
mod file;
mod image;

pub(crate) use file::{load, note};

pub(crate) use image::{Checkpoint, CheckpointBlock, Image};
pub use image::{Ignored, Opened};
pub(crate) use job::Job;
