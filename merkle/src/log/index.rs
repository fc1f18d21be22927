//! The index of a log: where its blocks are, so that opening need not scan for them.

use super::record::BlockRecord;

/// Index of one block. Places are the log's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexedBlock {
    /// Without payload.
    pub(crate) record: BlockRecord,
    pub(crate) place: u64,
    /// Place of the first extent.
    pub(crate) begin: u64,
    /// Per twig that the block begins, the place of the first extent that reaches into it.
    pub(crate) twigs: Vec<(u64, u64)>,
}

/// Index of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogIndex {
    pub(crate) blocks: Vec<IndexedBlock>,
    /// Place behind all that is indexed.
    pub(crate) end: u64,
    pub(crate) tip: u64,
    /// Place of the record that made it the tip, where records have places.
    pub(crate) tip_place: u64,
    pub(crate) next_seq: u64,
    pub(crate) next_extent: u64,
}
