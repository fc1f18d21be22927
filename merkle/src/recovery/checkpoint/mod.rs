//! Checkpoints: the tree, and the index of a paged state, after some block. Opening a store reads only the log behind
//! it.
//!
//! ```text
//! checkpoint = head, noted*, twigs*, young, slots*, extents*, end          frames as in `record`, each with a checksum
//! head       = "PHXC" || params || block id || height || root || shape || whether slots are there
//! end        = number of frames before it
//! ```
//!
//! A checkpoint is written beside the running store, from a copy that shares the index's pages, after all blocks up to
//! its own are durable. The file gets the name `checkpoint` once as many blocks follow as the store can rewind. It
//! repeats what the log says, so a torn, damaged or foreign one is ignored.

mod job;
mod file;
mod image;

pub(crate) use file::{length, load, note};

pub(crate) use image::{Checkpoint, CheckpointBlock, Image};
pub use image::{Ignored, Opened};
pub(crate) use job::Job;
