use std::{collections::HashMap, sync::Arc};

use phalanx_merkle_proof::{EMPTY, Hash};

use crate::{
    Backend, Delta, Error, Locator, Params, Pending, Prepared, StoreConfig,
    log::{Batch, FileLog, Log, MemLog, Shared},
    prepare::{Computed, compute, fold},
    replay::{Replayed, replay},
    resident::{Lookup, Resident},
    row::{BlockRow, Rows},
    tree::Tree,
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
    roots: Vec<Hash>,
    payload: Vec<u8>,
    /// Code of blocks that are applied and perhaps not written, with their heights.
    fresh_codes: HashMap<[u8; 32], (u64, Arc<[u8]>)>,
    next_extent: u64,
    epoch: u64,
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
        let Replayed { state, tree, roots, payload } = replay(&*log, params, salt)?;
        let found = (roots.len() as u64).checked_sub(1);
        if let Some(expected) = expected_min_height.filter(|expected| found.is_none_or(|found| found < *expected)) {
            return Err(Error::Behind { found, expected });
        }
        let (next_extent, next_height, next_sn) = (log.next_extent(), roots.len() as u64, tree.next_sn());
        let shared = Shared::new(log, next_height, next_sn);
        Ok(Self { params, state, tree, shared, roots, payload, fresh_codes: HashMap::new(), next_extent, epoch: 0 })
    }

    /// What fixes the meaning of this store's roots.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// The height of the last applied block; `None` before genesis.
    pub const fn height(&self) -> Option<u64> {
        (self.roots.len() as u64).checked_sub(1)
    }

    /// The height of the last block in the log; `None` if there is none.
    pub fn written_height(&self) -> Option<u64> {
        self.shared.written_height()
    }

    /// The root of the current state.
    pub fn root(&self) -> Hash {
        match self.roots.last() {
            Some(root) => *root,
            None => self.params.root(0, 0, &EMPTY),
        }
    }

    /// The root after the block at `height`, if it was applied. The store keeps 32 bytes per block for it.
    pub fn root_at(&self, height: u64) -> Option<Hash> {
        self.roots.get(usize::try_from(height).ok()?).copied()
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
        Ok(self.shared.log.block(height)?.map(|row| row.payload))
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
        let expected = self.roots.len() as u64;
        if height != expected {
            return Err(Error::Height { expected, got: height });
        }
        let log = self.shared.log.keeps_entries();
        let Computed { changes, tree, rows } = compute(&self.state, &self.tree, self.params.hash, &delta, height, log)?;
        let (shared, epoch) = (Arc::clone(&self.shared), self.epoch);
        Ok(Prepared { shared, epoch, height, delta, changes, tree, rows, payload: Vec::new() })
    }

    /// Makes a prepared block the tip in memory. Its write is returned, to be done here or on another thread, in order.
    ///
    /// # Errors
    /// [`Error::Stale`] if the block was prepared on another tip or by another store; nothing has changed then.
    /// [`Error::Poisoned`].
    pub fn apply(&mut self, prepared: Prepared) -> Result<Pending, Error> {
        self.shared.check()?;
        let Prepared { shared, epoch, height, delta, changes, tree, rows, payload } = prepared;
        if !Arc::ptr_eq(&shared, &self.shared) || epoch != self.epoch {
            return Err(Error::Stale { height });
        }
        fold(&mut self.state, &delta, &changes, self.tree.next_sn(), height);
        let extents = rows.iter().map(|rows| rows.len() as u64).sum();
        let block = BlockRow {
            height,
            parent: self.root(),
            root: tree.root,
            first_extent: self.next_extent,
            extents,
            next_sn: tree.next_sn,
            active: tree.active,
            payload: payload.clone(),
        };
        self.tree.apply(tree);
        self.roots.push(block.root);
        self.payload = payload;
        self.next_extent += extents;
        self.epoch += 1;
        self.release();
        self.fresh_codes.extend(delta.codes.iter().map(|(hash, code)| (*hash, (height, Arc::clone(code)))));
        let extents = if self.shared.log.keeps_entries() { rows } else { Vec::<Rows>::new() };
        Ok(Pending::new(shared, Batch { block, extents, codes: delta.codes }))
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
        self.shared.flush()
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
