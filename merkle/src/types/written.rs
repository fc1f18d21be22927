//! Where an entry was written, and where a key is in key order.

use phalanx_merkle_proof::Hash;

/// Exclusive bound of positions and heights.
pub(crate) const MAX_SN: u64 = 1 << 47;

/// Position and height of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Position of the current value.
    pub(crate) sn: u64,
    /// Position before it plus one, zero for none.
    pub(crate) previous: u64,
    /// Height of the block that wrote it.
    pub(crate) height: u64,
}

impl Written {
    #[inline]
    pub(crate) fn new(sn: u64, previous: Option<u64>, height: u64) -> Self {
        Self { sn, previous: previous.map_or(0, |sn| sn + 1), height }
    }

    /// Returns true if a record has room for it: positions and heights below 2^47 last for years of a million updates a
    /// second.
    pub(crate) const fn fits(&self) -> bool {
        (self.sn | self.previous | self.height) < MAX_SN
    }

    #[inline]
    pub(crate) const fn previous(&self) -> Option<u64> {
        self.previous.checked_sub(1)
    }
}

/// Place of a key in key order.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    /// Hash of the key.
    pub(crate) hash: Hash,
    /// Hash of the next key.
    pub(crate) next: Hash,
}
