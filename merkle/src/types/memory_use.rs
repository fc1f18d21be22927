//! Figures of a store: memory, cache and reads.

/// Memory of a store, in bytes, without the allocator's overhead and without blocks in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// Keys, values, positions and next keys of a resident state.
    pub records: usize,
    /// Part of the records that is too long for a record of fixed size.
    pub spilled: usize,
    /// Index of keys; for a paged state also key order and the places in the log.
    pub index: usize,
    /// Keys in order of their hashes, for a resident state.
    pub key_order: usize,
    /// Owner of each position, for a resident state.
    pub owners: usize,
    /// The active bits and digests of the commitment.
    pub tree: usize,
    /// Undo records of the last blocks.
    pub history: usize,
    /// Cached entries, for a paged state.
    pub cache: usize,
}

impl MemoryUse {
    /// Sum of all parts.
    pub const fn total(&self) -> usize {
        let Self { records, spilled, index, key_order, owners, tree, history, cache } = *self;
        records + spilled + index + key_order + owners + tree + history + cache
    }
}

/// Reads of a log since the store was opened, for [`Memory::Cached`](crate::Memory::Cached).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadUse {
    /// Extents that were asked for.
    pub extents: u64,
    /// Reads of the disk, or of the page cache: neighbouring extents share one.
    pub reads: u64,
    /// Bytes that the reads brought.
    pub bytes: u64,
    /// Sum over all reads of the reads in flight when each began, itself included: `depths / reads` is the mean depth.
    pub depths: u64,
    /// True if reads are queued on a ring (io_uring) and bypass the page cache where the file system allows it.
    pub on_rings: bool,
}

/// Lookups of entries that [`Memory::Cached`](crate::Memory::Cached) may cache, since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Entries found in memory.
    pub hits: u64,
    /// Entries read from the log, or from a block whose write was pending.
    pub misses: u64,
}

impl CacheUse {
    /// Lookups since earlier figures.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self { hits: self.hits - before.hits, misses: self.misses - before.misses }
    }

    /// Share of the lookups that found their entry in memory; zero without lookups.
    pub const fn hit_rate(&self) -> f64 {
        let all = self.hits + self.misses;
        if all == 0 { 0.0 } else { self.hits as f64 / all as f64 }
    }
}

impl ReadUse {
    /// Reads since earlier figures.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            extents: self.extents - before.extents,
            reads: self.reads - before.reads,
            bytes: self.bytes - before.bytes,
            depths: self.depths - before.depths,
            on_rings: self.on_rings,
        }
    }

    /// Mean number of reads in flight; zero without reads.
    pub const fn depth(&self) -> f64 {
        if self.reads == 0 { 0.0 } else { self.depths as f64 / self.reads as f64 }
    }
}
