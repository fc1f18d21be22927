/// What a store holds in memory, in bytes. What the allocator adds to it, and what blocks under way take, is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// Keys, values, positions and next keys of a resident state.
    pub records: usize,
    /// Of these what is too long for a record of fixed size.
    pub spilled: usize,
    /// What keys are found by; where the state is on disk also their order, and where in the log they are.
    pub index: usize,
    /// Keys in order of their hashes, where the state is resident.
    pub key_order: usize,
    /// Who was written at each position, where the state is resident.
    pub owners: usize,
    /// The active bits and digests of the commitment.
    pub tree: usize,
    /// What leads back from the last blocks.
    pub history: usize,
    /// Entries that were read or written lately, where the state is on disk.
    pub cache: usize,
}

impl MemoryUse {
    /// All of it.
    pub const fn total(&self) -> usize {
        let Self { records, spilled, index, key_order, owners, tree, history, cache } = *self;
        records + spilled + index + key_order + owners + tree + history + cache
    }
}

/// How often entries were asked for that [`Memory::Cached`](crate::Memory::Cached) may keep, since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// They were in memory.
    pub hits: u64,
    /// They had to be read from the log, or were of a block whose write was pending.
    pub misses: u64,
}
