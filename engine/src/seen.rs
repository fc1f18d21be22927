//! How the values of a state are read: of the committed one, of a block beside the chain, or of one that is not hashed yet.

use crate::state::Tip;
use phalanx_merkle::{Draft, DraftReader, Error, Locator, Reader, View};
use std::sync::Arc;

/// A block that is not committed.
#[derive(Debug)]
pub(crate) enum Seen {
    /// Held beside the chain.
    View(View),
    /// The next one, whose root is being computed.
    Draft {
        draft: Draft,
        /// The committed state's name.
        below: Arc<Tip>,
    },
}

/// A reader of either kind. Holds a lock.
#[derive(Debug)]
pub(crate) enum Values<'s> {
    Hashed(Reader<'s>),
    Drafted(DraftReader<'s>),
}

impl Values<'_> {
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Hashed(reader) => reader.get(key),
            Self::Drafted(reader) => reader.get(key),
        }
    }

    #[inline]
    pub(crate) fn locate(&self, key: &[u8]) -> Option<Locator> {
        match self {
            Self::Hashed(reader) => reader.locate(key),
            Self::Drafted(reader) => reader.locate(key),
        }
    }

    #[inline]
    pub(crate) fn value(&self, locator: Locator) -> Option<&[u8]> {
        match self {
            Self::Hashed(reader) => reader.value(locator),
            Self::Drafted(reader) => reader.value(locator),
        }
    }

    pub(crate) fn get_many<'k>(
        &self,
        keys: impl ExactSizeIterator<Item = &'k [u8]> + Clone,
        found: impl FnMut(Option<(&[u8], Option<Locator>)>),
    ) {
        match self {
            Self::Hashed(reader) => reader.get_many(keys, found),
            Self::Drafted(reader) => reader.get_many(keys, found),
        }
    }

    /// # Errors
    /// If something could not be read.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.hashed().check()
    }

    pub(crate) fn height(&self) -> Option<u64> {
        match self {
            Self::Hashed(reader) => reader.height(),
            Self::Drafted(reader) => Some(reader.tip().height().map_or(0, |height| height + 1)),
        }
    }

    /// The state itself, or the one below a block without root.
    pub(crate) const fn hashed(&self) -> &Reader<'_> {
        match self {
            Self::Hashed(reader) => reader,
            Self::Drafted(reader) => reader.tip(),
        }
    }
}
