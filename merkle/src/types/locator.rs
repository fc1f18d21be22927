//! Locators: fast names of keys that were looked up.

use std::num::NonZeroU32;

/// Fast name of a key that was looked up.
///
/// A locator stays valid while its key exists, whatever becomes of the value. After the key is deleted, the locator is
/// stale for ever, and detectably so, even if a key takes the place again.
///
/// For a paged state ([`Memory::Cached`](crate::Memory::Cached)) a rewind ends the locators of values that were written after the
/// block it leads to: they read `None` although their keys may exist. Keys are looked up again after a rewind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Locator {
    /// Generation of the key's record. On disk, one more than the number of rewinds before.
    pub(crate) generation: NonZeroU32,
    /// Record of the key. Unused on disk.
    pub(crate) id: u32,
    /// Prefix of the key's hash, which orders a block's changes without reading records. On disk, the position of the
    /// key.
    pub(crate) word: u64,
}

impl Locator {
    /// Creates the locator of a key of a paged state: its position, and the number of rewinds before.
    pub(crate) const fn of_position(sn: u64, epoch: u32) -> Self {
        Self { generation: NonZeroU32::MIN.saturating_add(epoch), id: 0, word: sn }
    }

    /// Position, and number of rewinds before.
    pub(crate) const fn position(self) -> (u64, u32) {
        (self.word, self.generation.get() - 1)
    }

    /// Prefix of the key's hash.
    pub(crate) const fn prefix(self) -> u64 {
        self.word
    }
}

/// Key to be looked up: by its bytes, or by a locator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lookup<'k> {
    Key(&'k [u8]),
    At(Locator),
}
