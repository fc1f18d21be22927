//! Ethereum's state root of an engine's blocks, beside the engine's own.
//!
//! ```text
//! checkout ──► execute ──► merkleize ──► add_fork ──► EthereumRoots::add ──► root ──► promote, advance
//!                                           │                │
//!                                        discard          discard
//! ```

use super::{Engine, SnapshotAt};
use crate::{model::Error, state::SnapshotError};
use alloy_primitives::{Address, B256, U256};
use phalanx_merkle::BlockId;
use phalanx_trie::{AccountProof, Changes, Config, Trie, Values, Version};
use std::collections::BTreeMap;

/// Ethereum's state trie of a committed block and of forks above it: roots that Ethereum's headers have, and proofs under
/// them.
///
/// In memory alone, some 220 bytes per account and slot; a process makes it anew from the state. The engine knows nothing
/// of it: the caller notifies it of forks that come, stay and go.
#[derive(Debug)]
pub struct EthereumRoots {
    trie: Trie,
    versions: BTreeMap<BlockId, Version>,
}

impl EthereumRoots {
    /// Makes the trie of the committed state. O(state).
    ///
    /// # Errors
    /// A stored value is not of the engine's format, or cannot be read.
    pub fn new(engine: &Engine) -> Result<Self, Error> {
        let contents = engine.state.trie_contents()?;
        let committed = engine.committed();
        let mut roots = Self { trie: Trie::new(Config::default()), versions: BTreeMap::new() };
        let values = engine.snapshot(SnapshotAt::Committed)?;
        let version = roots.update(engine, roots.trie.oldest(), &contents, &values)?;
        roots.trie.advance(version).map_err(failure)?;
        roots.versions.insert(committed, version);
        Ok(roots)
    }

    /// Adds a fork of the engine, whose parent is known here; returns its root. O(changes of the fork).
    ///
    /// # Errors
    /// The block is no fork, its parent is not known here, or a value cannot be read.
    pub fn add(&mut self, engine: &Engine, block: BlockId) -> Result<B256, Error> {
        let gone = || Error::from(phalanx_merkle::Error::Gone { block });
        let parent = engine.fork_parent(block).ok_or_else(gone)?;
        let below = *self.versions.get(&parent).ok_or(phalanx_merkle::Error::Gone { block: parent })?;
        let changes = engine.state_diff(block)?.trie_changes();
        let values = engine.snapshot(SnapshotAt::Block(parent))?;
        let version = self.update(engine, below, &changes, &values)?;
        self.versions.insert(block, version);
        self.root(block).ok_or_else(gone)
    }

    /// Root after a block; `None` if it is not known here.
    #[must_use]
    pub fn root(&self, block: BlockId) -> Option<B256> {
        self.versions.get(&block).and_then(|version| self.trie.root(*version))
    }

    /// Makes a child of the oldest block the oldest one, which no caller goes behind: what does not descend from it is
    /// forgotten.
    ///
    /// # Errors
    /// The block is not known here, or no child of the oldest one.
    pub fn advance(&mut self, block: BlockId) -> Result<(), Error> {
        self.change(block, Trie::advance)
    }

    /// Forgets a fork and all forks on it.
    ///
    /// # Errors
    /// The block is not known here, or the oldest one.
    pub fn discard(&mut self, block: BlockId) -> Result<(), Error> {
        self.change(block, Trie::discard)
    }

    /// Proves an account and slots of it under [`Self::root`] of a block, as `eth_getProof` does (EIP-1186).
    ///
    /// # Errors
    /// The block is not known here, or its state is not kept by the engine any more.
    pub fn prove(
        &self,
        engine: &Engine,
        block: BlockId,
        address: &Address,
        slots: &[U256],
    ) -> Result<AccountProof, Error> {
        let version = *self.versions.get(&block).ok_or(phalanx_merkle::Error::Gone { block })?;
        let values = engine.snapshot(SnapshotAt::Block(block))?;
        let slots: Vec<B256> = slots.iter().map(|slot| B256::from(*slot)).collect();
        self.trie.prove(version, address, &slots, &values).map_err(failure)
    }

    fn update(
        &mut self,
        engine: &Engine,
        parent: Version,
        changes: &Changes,
        values: &impl Values<Error = SnapshotError>,
    ) -> Result<Version, Error> {
        let made = engine.workers.install(|| self.trie.update(parent, changes, values));
        Ok(made.map_err(failure)?.version)
    }

    fn change<E: core::fmt::Display>(
        &mut self,
        block: BlockId,
        change: impl FnOnce(&mut Trie, Version) -> Result<(), E>,
    ) -> Result<(), Error> {
        let version = *self.versions.get(&block).ok_or(phalanx_merkle::Error::Gone { block })?;
        change(&mut self.trie, version).map_err(failure)?;
        self.versions.retain(|_, version| self.trie.root(*version).is_some());
        Ok(())
    }
}

fn failure(error: impl core::fmt::Display) -> Error {
    Error::EthereumRoot { what: error.to_string() }
}
