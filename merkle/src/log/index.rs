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

use super::record::BlockRecord;

/// What a log says of a block, so that it need not be looked for. Places are the log's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexedBlock {
    /// Without payload.
    pub(crate) record: BlockRecord,
    pub(crate) place: u64,
    /// Of its first extent.
    pub(crate) begin: u64,
    /// Per twig that it begins, of the first extent that reaches into it.
    pub(crate) twigs: Vec<(u64, u64)>,
}

/// What a log says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogIndex {
    pub(crate) blocks: Vec<IndexedBlock>,
    /// The place after all that is noted.
    pub(crate) end: u64,
    pub(crate) tip: u64,
    /// Of the row that made it the tip, where rows have places.
    pub(crate) tip_place: u64,
    pub(crate) next_seq: u64,
    pub(crate) next_extent: u64,
}
