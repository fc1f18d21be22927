use std::{collections::HashMap, sync::Arc};

use phalanx_merkle_proof::{Hash, Shape};

use crate::{
    Backend, Delta, Error, Locator, Params, Pending, Prepared, StoreConfig,
    log::{Batch, FileLog, Log, MemLog, Shared, Write},
    prepare::{compute, fold},
    replay::{Replayed, replay},
    resident::{Lookup, Resident},
    row::BlockRow,
    tree::{Tree, TreeView},
};

/// An authenticated key-value store: the state of a chain, one root per block.
///
/// The current state is resident and read through `&self` by any number of threads. A block goes through
/// [`Self::prepare`] (hashes, changes nothing), [`Self::apply`] (changes memory) and [`Pending::write`] (reaches the log,
/// on any thread); [`Self::commit`] does the last two at once.
///
/// A write that fails ends the handle: what is in memory can still be read, and every call that can fail returns
/// [`Error::Poisoned`] until the store is opened again.
#[derive(Debug)]
pub struct Store {
    params: Params,
    pub(crate) state: Resident,
    pub(crate) tree: Tree,
    pub(crate) shared: Arc<Shared>,
    /// The committed blocks that the log still holds.
    pub(crate) chain: Vec<ChainBlock>,
    payload: Vec<u8>,
    /// Code of blocks that are applied and perhaps not written, with their heights.
    fresh_codes: HashMap<[u8; 32], (u64, Arc<[u8]>)>,
    next_extent: u64,
    next_seq: u64,
    next_id: u64,
}

/// A committed block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainBlock {
    pub(crate) id: u64,
    pub(crate) height: u64,
    pub(crate) root: Hash,
    /// Its first position.
    pub(crate) first_sn: u64,
    pub(crate) shape: Shape,
}

impl From<&BlockRow> for ChainBlock {
    fn from(row: &BlockRow) -> Self {
        Self { id: row.id, height: row.height, root: row.root, first_sn: row.first_sn, shape: row.shape }
    }
}

impl Store {
    /// Opens a store, creating it if there is none, and rebuilds the state from its log.
    ///
    /// Takes time in proportion to the log. Uses the current rayon pool.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Format`], [`Error::Corrupt`], [`Error::Behind`], or what the file system reports.
    pub fn open(config: StoreConfig) -> Result<Self, Error> {
        let StoreConfig { backend, durability, params, salt, expected_min_height } = config;
        let log: Box<dyn Log> = match backend {
            Backend::Mem => Box::new(MemLog::default()),
            Backend::File(dir) => Box::new(FileLog::open(&dir, durability, &params)?),
            #[cfg(feature = "rocksdb")]
            Backend::Rocks(dir) => Box::new(crate::log::RocksLog::open(&dir, durability, &params)?),
        };
        let Replayed { state, tree, mut chain } = replay(&*log, params, salt)?;
        let found = chain.last().map(|row| row.height);
        if let Some(expected) = expected_min_height.filter(|expected| found.is_none_or(|found| found < *expected)) {
            return Err(Error::Behind { found, expected });
        }
        let (next_extent, next_seq) = (log.next_extent(), log.tip().1);
        let next_id = chain.last().map_or(1, |row| row.id + 1);
        let payload = chain.last_mut().map(|row| std::mem::take(&mut row.payload)).unwrap_or_default();
        let chain = chain.iter().map(ChainBlock::from).collect();
        let shared = Shared::new(log, found, tree.shape().next_sn);
        let fresh_codes = HashMap::new();
        Ok(Self { params, state, tree, shared, chain, payload, fresh_codes, next_extent, next_seq, next_id })
    }

    /// What fixes the meaning of this store's roots.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// The height of the last applied block; `None` before genesis.
    pub fn height(&self) -> Option<u64> {
        self.chain.last().map(|block| block.height)
    }

    /// The height of the last block in the log; `None` if there is none.
    pub fn written_height(&self) -> Option<u64> {
        self.shared.written_height()
    }

    /// The root of the current state.
    pub fn root(&self) -> Hash {
        self.chain.last().map_or_else(|| self.tree.root(), |block| block.root)
    }

    /// What the current root says of the log besides its content.
    pub const fn shape(&self) -> &Shape {
        self.tree.shape()
    }

    fn at(&self, height: u64) -> Option<&ChainBlock> {
        let first = self.chain.first()?.height;
        self.chain.get(usize::try_from(height.checked_sub(first)?).ok()?)
    }

    /// The root after the block at `height`, if it was applied and not pruned.
    pub fn root_at(&self, height: u64) -> Option<Hash> {
        self.at(height).map(|block| block.root)
    }

    /// What [`Prepared::with_payload`] attached to the last applied block.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// What was attached to the block at `height`, if it is written.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or what the log reports.
    pub fn payload_at(&self, height: u64) -> Result<Option<Vec<u8>>, Error> {
        self.shared.check()?;
        let Some(block) = self.at(height) else { return Ok(None) };
        Ok(self.shared.log.block(block.id)?.map(|row| row.payload))
    }

    /// Number of keys.
    pub const fn len(&self) -> usize {
        self.state.len()
    }

    /// Whether there is no key.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All keys with their values, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.state.iter()
    }

    /// The value of a key. Expected O(1), two cache misses.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.state.find(key).map(|id| self.state.entry(id).1)
    }

    /// A fast name for a key that exists, to read it again and to change it.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> Option<Locator> {
        self.state.find(key).map(|id| self.state.locator(id))
    }

    /// Locates many keys with their cache misses overlapped, several times faster than one by one. Appends one element
    /// per key to `out`, in order.
    pub fn locate_many<K: AsRef<[u8]>>(&self, keys: &[K], out: &mut Vec<Option<Locator>>) {
        out.reserve(keys.len());
        let lookups = keys.iter().map(|key| Lookup::Key(key.as_ref()));
        self.state.find_many::<false>(lookups, |id| out.push(id.map(|id| self.state.locator(id))));
    }

    /// The value of a located key; `None` if the key was deleted since.
    #[inline]
    pub fn value(&self, locator: Locator) -> Option<&[u8]> {
        self.state.live(locator).map(|id| self.state.entry(id).1)
    }

    /// Asks the cache for a located key's value, for a caller that reads it shortly.
    #[inline]
    pub fn prefetch(&self, locator: Locator) {
        self.state.prefetch_located(locator);
    }

    /// The contract code with this hash, if some applied block put it. Reads the log; keep what is used often.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or what the log reports.
    pub fn code(&self, hash: &[u8; 32]) -> Result<Option<Arc<[u8]>>, Error> {
        if let Some((_, code)) = self.fresh_codes.get(hash) {
            return Ok(Some(Arc::clone(code)));
        }
        self.shared.check()?;
        self.shared.log.code(hash)
    }

    /// Hashes the block that `delta` makes at `height`, which must be the one after the tip (0 first). Changes nothing and
    /// does no I/O; the root is known when it returns.
    ///
    /// Entries are ordered by key hash, so the root depends on nothing but the parent and what changes. Uses the current
    /// rayon pool for blocks that are worth it. Transient memory is about 200 bytes per operation besides the delta.
    ///
    /// # Errors
    /// [`Error::Height`], [`Error::StaleLocator`], [`Error::TooLong`], [`Error::Poisoned`].
    pub fn prepare(&self, delta: Delta, height: u64) -> Result<Prepared, Error> {
        self.shared.check()?;
        let expected = self.next_height();
        if height != expected {
            return Err(Error::Height { expected, got: height });
        }
        let log = self.shared.log.keeps_entries();
        let tree = TreeView::from(&self.tree);
        let effect = compute(&self.state, tree, self.params.hash, delta, height, log)?;
        Ok(Prepared { shared: Arc::clone(&self.shared), parent_id: self.tip_id(), effect, payload: Vec::new() })
    }

    fn next_height(&self) -> u64 {
        self.height().map_or(0, |height| height + 1)
    }

    fn tip_id(&self) -> u64 {
        self.chain.last().map_or(0, |block| block.id)
    }

    /// Makes a prepared block the tip in memory. Its write is returned, to be done here or on another thread, in order.
    ///
    /// # Errors
    /// [`Error::Stale`] if the block was prepared on another tip or by another store; nothing has changed then.
    /// [`Error::Poisoned`].
    pub fn apply(&mut self, prepared: Prepared) -> Result<Pending, Error> {
        self.shared.check()?;
        let Prepared { shared, parent_id, mut effect, payload } = prepared;
        let height = effect.height;
        if !Arc::ptr_eq(&shared, &self.shared) || parent_id != self.tip_id() {
            return Err(Error::Stale { height });
        }
        fold(&mut self.state, &effect);
        let extents = effect.rows.iter().map(|rows| rows.len() as u64).sum();
        let block = BlockRow {
            seq: self.next_seq,
            committed: true,
            id: self.next_id,
            parent_id,
            height,
            parent: self.root(),
            root: effect.tree.root,
            first_extent: self.next_extent,
            extents,
            first_sn: effect.first_sn,
            shape: effect.tree.shape,
            payload: payload.clone(),
        };
        self.tree.apply(effect.tree);
        self.chain.push(ChainBlock::from(&block));
        self.payload = payload;
        self.next_extent += extents;
        self.next_seq += 1;
        self.next_id += 1;
        self.release();
        let codes = std::mem::take(&mut effect.delta.codes);
        self.fresh_codes.extend(codes.iter().map(|(hash, code)| (*hash, (height, Arc::clone(code)))));
        let extents = if self.shared.log.keeps_entries() { effect.rows } else { Vec::new() };
        Ok(Pending::new(shared, Write::Block(Box::new(Batch { block, extents, codes }))))
    }

    /// Applies a prepared block and writes it to the log.
    ///
    /// # Errors
    /// Those of [`Self::apply`] and of [`Pending::write`].
    pub fn commit(&mut self, prepared: Prepared) -> Result<(), Error> {
        self.apply(prepared)?.write()
    }

    /// Makes every written block survive power loss, whatever the durability.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or what the log reports, after which the store is poisoned.
    pub fn flush(&self) -> Result<(), Error> {
        self.shared.between(|log| log.flush())
    }

    /// Lets go of what is kept in memory only until it can be read from the log.
    fn release(&mut self) {
        let written = self.shared.written_height();
        if self.shared.log.keeps_entries() {
            self.tree.release(self.shared.written_sn());
        }
        if !self.fresh_codes.is_empty() {
            self.fresh_codes.retain(|_, (height, _)| written.is_none_or(|written| *height > written));
        }
    }
}
