//! The current state in memory: keys, values, where in the log each value was written, and the ring of keys.

use std::num::NonZeroU32;

/// Where a key's record is: a fast name for a key that was looked up.
///
/// It stays good while the key exists, whatever happens to its value. After the key was deleted it is stale, for ever and
/// detectably, even if the key or another one takes the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Locator {
    /// Of the key's record. On disk, one more than how often the chain had been taken back.
    pub(crate) generation: NonZeroU32,
    /// The key's record. On disk it means nothing.
    pub(crate) id: u32,
    /// The first bytes of the key's hash: a block's changes are put in order by them, without a look at records. On disk,
    /// the position that the key had.
    pub(crate) word: u64,
}

impl Locator {
    /// Where the state is on disk, a key's locator is the position that it had, and how often the chain had been taken back.
    pub(crate) const fn of_position(sn: u64, epoch: u32) -> Self {
        Self { generation: NonZeroU32::MIN.saturating_add(epoch), id: 0, word: sn }
    }

    /// The position, and how often the chain had been taken back.
    pub(crate) const fn position(self) -> (u64, u32) {
        (self.word, self.generation.get() - 1)
    }

    /// The first bytes of the key's hash.
    pub(crate) const fn prefix(self) -> u64 {
        self.word
    }
}

/// One of many keys to be looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lookup<'k> {
    Key(&'k [u8]),
    At(Locator),
}
