//! Memory and cache figures of a store.

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

/// Lookups of entries that [`Memory::Cached`](crate::Memory::Cached) may cache, since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Entries found in memory.
    pub hits: u64,
    /// Entries read from the log, or from a block whose write was pending.
    pub misses: u64,
}
