//! The root that a chain's blocks report: of the store's twigs, or of Ethereum's trie beside them. [`Commitment`] is the interface, and
//! nothing above it asks which of the two it is.
//!
//! ```text
//! delta ──► store ──► prepared block ──► twigs: its own root
//!                          │
//!                          └─ changed keys ──► Ethereum: a version of the trie, and its root
//! ```
//!
//! Values stay in the store, and twigs stay beneath either root: log, checkpoints and snapshots depend on them.

mod changes;
mod prove;
mod restore;
mod versions;
mod witness;

use crate::model::{Error, RootKind};
use alloy_primitives::{Address, B256};
use changes::Gathered;
use phalanx_merkle::{BlockId, Hash, Pending, Store};
use phalanx_trie::Values;
use std::sync::Arc;
use versions::{Unapplied, Versions};
pub use witness::StateWitness;

/// Source of the roots of a state's blocks.
#[derive(Clone, Debug, Default)]
pub(crate) enum Commitment {
    /// The store's own root.
    #[default]
    Twigs,
    /// Ethereum's trie, with a version for every block that can be read.
    Ethereum(Arc<Versions>),
}

/// State that a block is prepared on.
pub(super) trait Before: Values<Error: core::fmt::Display> {
    /// Number of times that the storage of an account was emptied.
    ///
    /// # Errors
    /// The state cannot be read.
    fn incarnation(&self, address: &Address) -> Result<u32, Self::Error>;
}

/// A block with the root after it, which changes nothing until it is applied.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) block: phalanx_merkle::Prepared,
    /// The trie's version, if the root is the trie's.
    version: Option<Unapplied>,
}

impl Prepared {
    /// Root after the block.
    pub(crate) const fn root(&self) -> B256 {
        match &self.version {
            Some(version) => version.root(),
            None => B256::new(self.block.root()),
        }
    }
}

impl Commitment {
    /// Kind of the root.
    pub(crate) const fn kind(&self) -> RootKind {
        match self {
            Self::Twigs => RootKind::Twigs,
            Self::Ethereum(_) => RootKind::Ethereum,
        }
    }

    /// Root after a block, whose twigs have the root `own`; `None` if the block is gone.
    pub(crate) fn root(&self, block: BlockId, own: Hash) -> Option<B256> {
        match self {
            Self::Twigs => Some(B256::new(own)),
            Self::Ethereum(versions) => versions.root(block),
        }
    }

    /// Adds the root to a prepared block; `before` is the state that it was prepared on. In the current rayon pool.
    ///
    /// # Errors
    /// The parent is gone, a value cannot be read, or another block is being prepared.
    pub(super) fn prepare<B: Before>(
        &self,
        block: phalanx_merkle::Prepared,
        before: impl FnOnce() -> Result<B, Error>,
    ) -> Result<Prepared, Error> {
        let version = match self {
            Self::Twigs => None,
            Self::Ethereum(versions) => {
                let before = before()?;
                let changes = changes::of_block(Gathered::of_block(&block, &before)?);
                Some(versions.update(block.parent(), &changes, &before)?)
            }
        };
        Ok(Prepared { block, version })
    }

    /// Makes a block the store's tip, and returns its write.
    pub(super) fn apply(&self, store: &mut Store, prepared: Prepared) -> Result<Pending, Error> {
        let Prepared { block, version } = prepared;
        let pending = store.apply(block)?;
        self.keep(version, store.tip());
        self.follow(store);
        Ok(pending)
    }

    /// Adds a block with its tag to the store as a fork.
    pub(super) fn add_fork(&self, store: &mut Store, prepared: Prepared, tag: Vec<u8>) -> Result<BlockId, Error> {
        let Prepared { block, version } = prepared;
        let id = store.add_fork(block.with_payload(tag)?)?;
        self.keep(version, id);
        Ok(id)
    }

    fn keep(&self, version: Option<Unapplied>, block: BlockId) {
        if let (Self::Ethereum(versions), Some(version)) = (self, version) {
            versions.keep(version, block);
        }
    }

    /// Follows the store: drops the versions of blocks that it has dropped.
    pub(super) fn follow(&self, store: &Store) {
        if let Self::Ethereum(versions) = self {
            versions.follow(store);
        }
    }
}

/// Error of an engine whose trie cannot go on.
fn failure(error: impl core::fmt::Display) -> Error {
    Error::EthereumRoot { what: error.to_string() }
}
