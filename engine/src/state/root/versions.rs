//! Versions of Ethereum's trie by block: of the committed blocks that a rewind can reach, and of forks.

use super::failure;
use crate::model::Error;
use alloy_primitives::B256;
use parking_lot::{Mutex, RwLock};
use phalanx_merkle::{BlockId, Store};
use phalanx_trie::{Changes, Config, Trie, Values, Version};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Ethereum's trie with its versions.
///
/// Readers hold the trie's lock while they prove, and wait for nothing else meanwhile. An update holds it while it waits for other
/// jobs of its pool, so a job of a pool must not wait for it in turn: see [`Self::read`].
pub(crate) struct Versions {
    trie: RwLock<Trie>,
    /// Held by an update, before the trie's lock.
    updating: Mutex<()>,
    blocks: Mutex<Blocks>,
}

#[derive(Debug)]
struct Blocks {
    /// Committed blocks that a rewind can reach, oldest first. A child has a higher id than its parent.
    chain: VecDeque<(BlockId, Known)>,
    forks: BTreeMap<BlockId, Known>,
    /// Versions of blocks that were prepared and dropped.
    dropped: Vec<Version>,
}

/// Version of a block.
#[derive(Clone, Copy, Debug)]
struct Known {
    version: Version,
    root: B256,
}

impl Blocks {
    fn get(&self, block: BlockId) -> Option<Known> {
        let committed = self.chain.binary_search_by_key(&block, |(block, _)| *block).ok();
        committed.map_or_else(|| self.forks.get(&block).copied(), |at| Some(self.chain[at].1))
    }
}

impl core::fmt::Debug for Versions {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Versions").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

/// Version of a prepared block, which is forgotten unless the block is applied.
#[derive(Debug)]
pub(super) struct Unapplied {
    /// Trie of the version, until it is kept.
    versions: Option<Arc<Versions>>,
    version: Version,
    root: B256,
}

impl Unapplied {
    pub(super) const fn root(&self) -> B256 {
        self.root
    }
}

impl Drop for Unapplied {
    fn drop(&mut self) {
        if let Some(versions) = self.versions.take() {
            versions.blocks.lock().dropped.push(self.version);
        }
    }
}

impl Versions {
    /// The trie of a committed block, whose state is all of `contents`.
    ///
    /// # Errors
    /// The state contradicts itself.
    pub(super) fn new(
        oldest: BlockId,
        contents: &Changes,
        values: &impl Values<Error: core::fmt::Display>,
    ) -> Result<Arc<Self>, Error> {
        let mut trie = Trie::new(Config::default());
        let made = trie.update(trie.oldest(), contents, values).map_err(failure)?;
        trie.advance(made.version).map_err(failure)?;
        Ok(Self::of(trie, oldest))
    }

    /// The empty trie, of a store without a block.
    pub(super) fn empty(store: &Store) -> Arc<Self> {
        Self::of(Trie::new(Config::default()), store.tip())
    }

    fn of(trie: Trie, oldest: BlockId) -> Arc<Self> {
        let (version, root) = (trie.oldest(), trie.root(trie.oldest()).unwrap_or_default());
        let chain = VecDeque::from([(oldest, Known { version, root })]);
        let blocks = Mutex::new(Blocks { chain, forks: BTreeMap::new(), dropped: Vec::new() });
        Arc::new(Self { trie: RwLock::new(trie), updating: Mutex::new(()), blocks })
    }

    /// Root after a block.
    pub(super) fn root(&self, block: BlockId) -> Option<B256> {
        self.blocks.lock().get(block).map(|known| known.root)
    }

    /// Version of a block.
    pub(super) fn version(&self, block: BlockId) -> Option<Version> {
        self.blocks.lock().get(block).map(|known| known.version)
    }

    /// Reads the trie. `None` if an update holds it and the caller is a job of a pool, whose thread the update may be waiting for.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Trie) -> T) -> Option<T> {
        if rayon::current_thread_index().is_some() {
            return self.trie.try_read().map(|trie| read(&trie));
        }
        Some(read(&self.trie.read()))
    }

    /// Makes the version of a block on top of `parent`, in the current rayon pool.
    ///
    /// # Errors
    /// The parent is gone, a value cannot be read, or another block is being prepared.
    pub(super) fn update(
        self: &Arc<Self>,
        parent: BlockId,
        changes: &Changes,
        values: &impl Values<Error: core::fmt::Display>,
    ) -> Result<Unapplied, Error> {
        let busy = || failure("another block is being merkleized: merkleize one block after the other");
        let _updating = self.updating.try_lock().ok_or_else(busy)?;
        let below = self.version(parent).ok_or(phalanx_merkle::Error::Gone { block: parent })?;
        let dropped = core::mem::take(&mut self.blocks.lock().dropped);
        let mut trie = self.trie.write();
        discard(&mut trie, dropped);
        let made = trie.update(below, changes, values).map_err(failure)?;
        Ok(Unapplied { versions: Some(Arc::clone(self)), version: made.version, root: made.root })
    }

    /// Names a version by its block, a fork until [`Self::follow`] finds it in the chain.
    pub(super) fn keep(&self, mut made: Unapplied, block: BlockId) {
        made.versions = None;
        self.blocks.lock().forks.insert(block, Known { version: made.version, root: made.root });
    }

    /// Adds a fork to the end of the chain.
    pub(super) fn commit(&self, block: BlockId) {
        let mut blocks = self.blocks.lock();
        if let Some(known) = blocks.forks.remove(&block) {
            blocks.chain.push_back((block, known));
        }
    }

    /// Follows the store: its tip is the chain's end, and blocks that it has dropped are gone here as well.
    pub(super) fn follow(&self, store: &Store) {
        self.commit(store.tip());
        let (tip, window) = (store.tip(), store.history());
        let mut trie = self.trie.write();
        let Blocks { chain, forks, dropped } = &mut *self.blocks.lock();
        // The lowest of the rewound blocks takes those above it along.
        let kept = chain.partition_point(|(block, _)| *block <= tip);
        dropped.extend(chain.get(kept).map(|(_, known)| known.version));
        chain.truncate(kept);
        dropped.extend(forks.extract_if(.., |block, _| !store.is_fork(*block)).map(|(_, known)| known.version));
        discard(&mut trie, core::mem::take(dropped));
        while chain.len() > window + 1 {
            chain.pop_front();
            // Versions of a chain are children of each other.
            let moved = chain.front().is_some_and(|(_, next)| trie.advance(next.version).is_ok());
            debug_assert!(moved, "the trie follows the chain");
        }
    }
}

/// Discards versions; some may be gone with those below them.
fn discard(trie: &mut Trie, versions: Vec<Version>) {
    for version in versions {
        let _ = trie.discard(version);
    }
}
