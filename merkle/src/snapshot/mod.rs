//! Snapshots for state sync: the committed state at one height as chunks, each proven under the state root by itself.
//!
//! ```text
//! manifest = "PHXSNAP1" || params || height || root || next_sn || floor || active || top       (integers big endian)
//! chunk    = digest* || twig* || (length || code)*
//! twig     = active bits || (height || entry)*                one per position that was ever used
//! ```
//!
//! A state is the content of its positions from the floor's twig on, and which of them are active. All nodes share both: they
//! follow from the blocks, and pruning, backends and checkpoints only decide what is kept besides. So a height has one
//! manifest and one series of chunks, byte for byte, whatever the history of the store.
//!
//! A chunk is 16 neighbouring twigs, aligned, with the digests that lead from them to the top. Behind them is the code that its
//! active entries name, in the order of its hashes. So a chunk from an unknown peer is checked alone, in time in proportion to
//! its length. Code that several chunks need is in each.
//!
//! No part of this module does I/O: [`Store::exporter`](crate::Store::exporter) makes chunks, and
//! [`Restore`](crate::Restore) makes a store of them.

mod importer;
mod chunk;
mod manifest;
mod levels;

pub use chunk::Chunk;
pub(crate) use chunk::ChunkWriter;
pub use importer::Importer;
pub(crate) use levels::Levels;
pub use manifest::Manifest;

pub use crate::types::SnapshotError;
