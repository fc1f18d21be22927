//! The current state in memory: keys, values, where in the log each value was written, and the ring of keys.

use phalanx_merkle_proof::Hash;

/// No position, and no height, grows to this.
pub(crate) const MAX_SN: u64 = 1 << 47;

/// Where and when a value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// The position of the current value.
    pub(crate) sn: u64,
    /// The position before it plus one, zero for none.
    pub(crate) previous: u64,
    /// The block that wrote it.
    pub(crate) height: u64,
}

impl Written {
    #[inline]
    pub(crate) fn new(sn: u64, previous: Option<u64>, height: u64) -> Self {
        Self { sn, previous: previous.map_or(0, |sn| sn + 1), height }
    }

    /// Whether it is one that a record has room for: positions and heights below 2^47, thousands of years of blocks and
    /// years of a million updates a second.
    pub(crate) const fn fits(&self) -> bool {
        (self.sn | self.previous | self.height) < MAX_SN
    }

    #[inline]
    pub(crate) const fn previous(&self) -> Option<u64> {
        self.previous.checked_sub(1)
    }
}

/// Where a key stands in the ring.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    /// The key's hash.
    pub(crate) hash: Hash,
    /// The hash of the next key.
    pub(crate) next: Hash,
}
