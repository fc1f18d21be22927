//! Where blocks go so that they outlive the process.

use std::{fmt::Debug, path::PathBuf, sync::Arc};

use phalanx_merkle_proof::Hash;

use super::{
    index::LogIndex,
    record::{BlockRecord, Kind, Records, TipRecord},
};
use crate::types::Error;

/// A block as rows.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) block: BlockRecord,
    /// Its extents in order.
    pub(crate) extents: Arc<Vec<Records>>,
    pub(crate) codes: Vec<(Hash, Arc<[u8]>)>,
}

/// Who reads extents: their kinds and bodies, until it says stop.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(Kind, &[u8]) -> Result<bool, Error>;

/// Who reads extents at many places: the numbers of these, kinds and bodies.
pub(crate) type VisitMany<'a> = &'a mut dyn FnMut(usize, Kind, &[u8]);

/// Where an extent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) place: u64,
    /// How far it is from there to the next one, if that is known: where places count bytes, it is no longer.
    pub(crate) most: u64,
}

/// Who reads codes: their hashes and bytes.
pub(crate) type VisitCode<'a> = &'a mut dyn FnMut(&Hash, &[u8]) -> Result<(), Error>;

/// A log of blocks. Calls come from several threads; writes come one at a time, by sequence number.
pub(crate) trait Log: Debug + Send + Sync {
    /// Where the log is, for errors.
    fn path(&self) -> PathBuf;

    /// Whether entries can be read back.
    fn keeps_entries(&self) -> bool;

    /// Adds a block: all of it or, if the process dies, nothing of it.
    fn write(&self, batch: Batch) -> Result<(), Error>;

    /// Makes a written block the tip.
    fn set_tip(&self, tip: TipRecord) -> Result<(), Error>;

    /// Makes everything written survive power loss.
    fn flush(&self) -> Result<(), Error>;

    /// The rows of all blocks in the log, by ascending id.
    fn blocks(&self) -> Result<Vec<BlockRecord>, Error>;

    /// The last tip, by id, and the next sequence number.
    fn tip(&self) -> (Option<u64>, u64);

    /// Takes what the log was opened with as the last tip's note.
    fn take_note(&self) -> Vec<u8>;

    /// Hands the extents of a block to `visit`, in order; from the first one on that reaches into `twig`, if one does.
    fn extents(&self, id: u64, twig: Option<u64>, visit: Visit<'_>) -> Result<(), Error>;

    /// The row of a written block.
    fn block(&self, id: u64) -> Result<Option<BlockRecord>, Error>;

    /// The code with this hash, if it was written.
    fn code(&self, hash: &Hash) -> Result<Option<Arc<[u8]>>, Error>;

    /// Hands all codes with their hashes to `visit`.
    fn codes(&self, visit: VisitCode<'_>) -> Result<(), Error>;

    /// The lowest extent number that was never used.
    fn next_extent(&self) -> u64;

    /// Where a written block begins.
    fn begin(&self, id: u64) -> Option<Begin>;

    /// Hands extents to `visit`, in order, each with its number among them.
    fn read(&self, spots: &[Spot], visit: VisitMany<'_>) -> Result<(), Error>;

    /// What the log says of itself, for [`open_log`](crate::store::open_log) to begin with.
    fn note(&self) -> Result<LogIndex, Error>;

    /// Makes everything written survive power loss without holding up who writes meanwhile.
    fn settle(&self) -> Result<(), Error>;

    /// Bytes of entries that were written again since the log was opened, without the store having asked for it; `None`
    /// if nothing ever does that.
    fn rewritten(&self) -> Option<u64> {
        None
    }

    /// Drops what it can of the blocks with ids below `id`. The tip is above it.
    fn prune(&self, id: u64) -> Result<(), Error>;
}

/// Where a block begins, by the place of its first extent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begin {
    /// Places count bytes.
    Byte(u64),
    /// Places count extents.
    #[cfg(feature = "rocksdb")]
    Extent(u64),
}

impl Begin {
    /// The place of an extent that so many bytes and extents of the block are before. Grows along a block.
    pub(crate) const fn place(self, offset: u64, index: u64) -> u64 {
        #[cfg(not(feature = "rocksdb"))]
        let _ = index;
        match self {
            Self::Byte(first) => first + offset,
            #[cfg(feature = "rocksdb")]
            Self::Extent(first) => first + index,
        }
    }
}
