//! The interface of a log, which every backend implements.

use std::{fmt::Debug, fs::File, path::PathBuf, sync::Arc};

use phalanx_merkle_proof::{Hash, Params};

use super::{
    disk::Disk,
    index::LogIndex,
    record::{BlockRecord, Kind, Marks, Records, TipRecord},
};
use crate::types::{Access, Durability, Error, ReadUse, Reading, Tail};

/// Way to open a log.
#[derive(Clone, Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) access: Access,
    pub(crate) durability: Durability,
    /// True if so little of the log will be read that written data should bypass the page cache.
    #[cfg_attr(not(feature = "rocksdb"), expect(dead_code, reason = "only RocksDB can bypass the page cache"))]
    pub(crate) past_cache: bool,
    /// Way in which entries are read.
    pub(crate) reading: Reading,
    pub(crate) params: &'a Params,
    /// Index whose part of the log, if it fits the log, is not scanned.
    pub(crate) note: Option<&'a LogIndex>,
    pub(crate) disk: Disk,
}

/// Log records of a block.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) block: BlockRecord,
    /// Extents in order.
    pub(crate) extents: Arc<Vec<Records>>,
    pub(crate) codes: Vec<(Hash, Arc<[u8]>)>,
}

/// Visitor of extents, by kind and body; returns false to stop.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(Kind, &[u8]) -> Result<bool, Error>;

/// Visitor of extents at many places, by number, kind and body.
pub(crate) type VisitMany<'a> = &'a mut dyn FnMut(usize, Kind, &[u8]);

/// Place of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) place: u64,
    /// Maximum length of the extent, where places count bytes and the next place is known.
    pub(crate) most: u64,
}

/// Files that extents are in. They stay readable when the log is pruned meanwhile; empty for backends without files.
#[derive(Debug, Default)]
pub(crate) struct Files(pub(super) Vec<Target>);

/// File of a log. It stays readable when the log has pruned it meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(super) number: u32,
    /// The file through the page cache.
    pub(super) cached: Arc<File>,
    /// The same file past the page cache, if it may be read so, and the bytes that are durable: beyond them it is written to.
    pub(super) direct: Option<(Arc<File>, u64)>,
    pub(super) path: PathBuf,
}

/// Visitor of codes, by hash and bytes.
pub(crate) type VisitCode<'a> = &'a mut dyn FnMut(&Hash, &[u8]) -> Result<(), Error>;

/// Log of blocks. Several threads call it; writes come one at a time, by sequence number.
pub(crate) trait Log: Debug + Send + Sync {
    /// Path of the log, for errors.
    fn path(&self) -> PathBuf;

    /// Marks of the store's records.
    fn marks(&self) -> &Marks;

    /// Ends the opening of a log whose content was checked: keeps and cuts off torn ends, and makes it writable, unless it
    /// was opened for reading. Nothing is changed before.
    fn heal(self: Box<Self>) -> Result<(Box<dyn Log>, Tail), Error>;

    /// Returns true if entries can be read back.
    fn keeps_entries(&self) -> bool;

    /// Adds a block atomically: if the process dies, all of it or nothing.
    fn write(&self, batch: Batch) -> Result<(), Error>;

    /// Adds extents to the next block that is written, before its others; they are numbered from `first_extent` on. They count
    /// only with the block.
    fn write_part(&self, extents: &Records, first_extent: u64) -> Result<(), Error>;

    /// Adds code that the next block brings.
    fn write_code(&self, hash: &Hash, code: &[u8]) -> Result<(), Error>;

    /// Makes a written block of this height the tip.
    fn set_tip(&self, tip: TipRecord, height: u64) -> Result<(), Error>;

    /// Makes all writes durable.
    fn flush(&self) -> Result<(), Error>;

    /// Records of all blocks in the log, by ascending id.
    fn blocks(&self) -> Result<Vec<BlockRecord>, Error>;

    /// Id of the last tip, and the next sequence number.
    fn tip(&self) -> (Option<u64>, u64);

    /// Takes the last tip's note, as it was when the log was opened.
    fn take_note(&self) -> Vec<u8>;

    /// Hands the extents of a block to `visit`, in order; from the first that reaches into `twig`, if one does.
    fn extents(&self, id: u64, twig: Option<u64>, visit: Visit<'_>) -> Result<(), Error>;

    /// Record of a written block.
    fn block(&self, id: u64) -> Result<Option<BlockRecord>, Error>;

    /// Code with this hash, if it is written.
    fn code(&self, hash: &Hash) -> Result<Option<Arc<[u8]>>, Error>;

    /// Hands all codes with their hashes to `visit`.
    fn codes(&self, visit: VisitCode<'_>) -> Result<(), Error>;

    /// Lowest extent number that was never used.
    fn next_extent(&self) -> u64;

    /// Place where a written block begins.
    fn begin(&self, id: u64) -> Option<Begin>;

    /// Opens what extents are read from, whose places ascend. They can be read as long as the log keeps them, and in files even
    /// longer.
    fn hold(&self, _: &[Spot]) -> Result<Files, Error> {
        Ok(Files::default())
    }

    /// Hands extents to `visit`, in any order, each with its number among `spots`: some of those that are held.
    fn read(&self, spots: &[Spot], files: &Files, visit: VisitMany<'_>) -> Result<(), Error>;

    /// As [`Self::read`], with many reads in flight. Returns false, and has read nothing, if there is no ring for it now.
    fn read_deep(&self, _spots: &[Spot], _files: &Files, _visit: VisitMany<'_>) -> Result<bool, Error> {
        Ok(false)
    }

    /// Returns true if the log can keep many reads in flight per thread ([`Self::read_deep`]), as far as known.
    fn reads_at_depth(&self) -> bool {
        false
    }

    /// Figures of reads, if the backend has them.
    fn reads(&self) -> Option<ReadUse> {
        None
    }

    /// Index of the log, from which [`open_log`](super::open::open_log) opens it without a scan.
    fn note(&self) -> Result<LogIndex, Error>;

    /// Makes all writes durable without holding up later writes.
    fn settle(&self) -> Result<(), Error>;

    /// Bytes of entries that the backend rewrote by itself since the log was opened; `None` if it never does.
    fn rewritten(&self) -> Option<u64> {
        None
    }

    /// Drops what it can of the blocks with ids below `id`. The tip is above it.
    fn prune(&self, id: u64) -> Result<(), Error>;
}

/// Begin of a block: the place of its first extent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begin {
    /// Places count bytes.
    Byte(u64),
    /// Places count extents.
    #[cfg(feature = "rocksdb")]
    Extent(u64),
}

impl Begin {
    /// Place of an extent that follows this many bytes and extents of its block. Ascends along a block.
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
