use std::{collections::HashMap, path::Path, sync::Arc};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use phalanx_merkle_proof::{Hash, Shape};

use crate::{
    Backend, BlockId, Delta, Durability, Error, Memory, Params, Pending, Prepared, Reader, StoreConfig, View,
    branch::Branch,
    checkpoint::{self, Job, Note, Opened},
    core::Core,
    log::{Batch, Disk, FileLog, Log, MemLog, Shared, Write},
    overlay::Over,
    prepare::Effect,
    reader::At,
    replay::{From, Replayed},
    row::{BlockRow, MAX_PAYLOAD_LEN, TipRow},
    state::State,
    tree::TreeView,
};

/// An authenticated key-value store: the state of a chain, one root per block.
///
/// The current state is resident and read by any number of threads ([`Self::read`], [`Self::view`]). A block goes through
/// [`Self::prepare`] (hashes, changes nothing), [`Self::apply`] (changes memory) and [`Pending::write`] (reaches the log,
/// on any thread); [`Self::commit`] does the last two at once. Blocks that may never be committed are held beside the
/// chain, as many siblings and generations as there are: see [`Self::hold`].
///
/// A write that fails ends the handle: what is in memory can still be read, and every call that can fail returns
/// [`Error::Poisoned`] until the store is opened again.
#[derive(Debug)]
pub struct Store {
    params: Params,
    pub(crate) core: Arc<RwLock<Core>>,
    pub(crate) shared: Arc<Shared>,
    /// Blocks on top of the tip, by id.
    pub(crate) branches: HashMap<u64, Branch>,
    payload: Vec<u8>,
    note: Vec<u8>,
    next_extent: u64,
    pub(crate) next_seq: u64,
    pub(crate) next_id: u64,
    opened: Opened,
    pub(crate) job: Job,
}

impl Drop for Store {
    fn drop(&mut self) {
        // The thread that writes a checkpoint keeps the log open.
        match Arc::get_mut(&mut self.core) {
            Some(core) => self.job.close(core.get_mut()),
            // There are views, to be read.
            None => self.job.finish(&self.core.read_recursive()),
        }
    }
}

/// Opens or creates a log.
///
/// What `note` says of the log, if it fits, is not looked for again. `past_cache` says whether so little
/// of the log is going to be read that what is written should not stay in the page cache.
pub(crate) fn open_log(
    backend: &Backend,
    durability: Durability,
    past_cache: bool,
    params: &Params,
    note: Option<&Note>,
    disk: Disk,
) -> Result<Box<dyn Log>, Error> {
    #[cfg(not(feature = "rocksdb"))]
    let _ = past_cache;
    Ok(match backend {
        Backend::Mem => Box::new(MemLog::default()),
        Backend::File(dir) => Box::new(FileLog::open(dir, durability, params, note, disk)?),
        #[cfg(feature = "rocksdb")]
        Backend::Rocks(dir) => Box::new(crate::log::RocksLog::open(dir, durability, past_cache, params, note, disk)?),
    })
}

impl Store {
    /// Opens a store, creating it if there is none, and rebuilds the state from its last checkpoint and its log. Blocks that
    /// were staged on top of the tip and neither committed nor lost are there again ([`Self::branches`]).
    ///
    /// Takes time in proportion to the log since the checkpoint, and to the state if that is to be resident. Uses the
    /// current rayon pool.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Format`], [`Error::Corrupt`], [`Error::Behind`], or what the file system reports.
    pub fn open(config: StoreConfig) -> Result<Self, Error> {
        let StoreConfig {
            backend,
            durability,
            params,
            salt,
            expected_min_height,
            history,
            memory,
            checkpoint_bytes,
            thread_start,
            forks,
            faults,
        } = config;
        let (dir, disk) = (backend.path().map(Path::to_path_buf), Disk::new(faults));
        let checkpoint = dir.as_deref().map_or(Ok(None), |dir| checkpoint::load(dir, &params, &disk));
        let past_cache = memory == Memory::Resident;
        let log = open_log(&backend, durability, past_cache, &params, checkpoint::note(&checkpoint), disk.clone())?;
        let from = From { params, salt, window: history, memory };
        let Replayed { mut state, tree, chain, mut staged, history: undos, next_id, opened } =
            from.replay(&*log, checkpoint)?;
        let found = chain.last().map(|row| row.height);
        if let Some(expected) = expected_min_height.filter(|expected| found.is_none_or(|found| found < *expected)) {
            return Err(Error::Behind { found, expected });
        }
        let (next_extent, next_seq) = (log.next_extent(), log.tip().1);
        let note = log.take_note();
        // A checkpoint names blocks without what was attached to them.
        let payload_of = |row: &BlockRow| Ok(log.block(row.id)?.map(|row| row.payload).unwrap_or_default());
        let payload = chain.last().map(payload_of).transpose()?.unwrap_or_default();
        staged.iter_mut().try_for_each(|row| payload_of(row).map(|payload| row.payload = payload))?;
        let chain = chain.iter().map(Into::into).collect();
        let shared = Shared::new(log, found);
        if let State::Paged(paged) = &mut state {
            paged.thread_start = thread_start.clone();
        }
        let core = Core {
            params,
            shared: Arc::clone(&shared),
            state,
            tree,
            chain,
            history: undos.into(),
            window: history,
            fresh_codes: HashMap::new(),
            thread_start,
            forks,
        };
        let core = Arc::new(RwLock::new(core));
        let branches = HashMap::new();
        let job = Job::new(dir, checkpoint_bytes, disk);
        let mut store =
            Self { params, core, shared, branches, payload, note, next_extent, next_seq, next_id, opened, job };
        store.restore(staged)?;
        Ok(store)
    }

    /// How the store was opened.
    pub const fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The state after the last applied block.
    #[inline]
    pub fn read(&self) -> Reader<'_> {
        Reader::new(self.core(), At::Tip)
    }

    /// The state after a block, readable from any thread while the store goes on.
    ///
    /// # Errors
    /// [`Error::Gone`].
    pub fn view(&self, block: BlockId) -> Result<View, Error> {
        let overlay = self.branches.get(&block.0).map(|branch| Arc::clone(&branch.overlay));
        let view = View { core: Arc::clone(&self.core), id: block.0, overlay };
        view.read()?;
        Ok(view)
    }

    /// The last applied block; what is before the first block has an id, too.
    pub fn tip(&self) -> BlockId {
        BlockId(self.core().tip_id())
    }

    /// The block at a height, if it was applied and not pruned.
    pub fn block_at(&self, height: u64) -> Option<BlockId> {
        self.core().at(height).map(|block| BlockId(block.id))
    }

    #[inline]
    pub(crate) fn core(&self) -> RwLockReadGuard<'_, Core> {
        // Readers of the same thread may nest, even while a view on another thread waits for a block to be applied.
        self.core.read_recursive()
    }

    /// What fixes the meaning of this store's roots.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// The height of the last applied block; `None` before genesis.
    pub fn height(&self) -> Option<u64> {
        self.core().height()
    }

    /// How many blocks can be taken back at most.
    pub fn history(&self) -> usize {
        self.core().window
    }

    /// The height of the last block in the log; `None` if there is none.
    pub fn written_height(&self) -> Option<u64> {
        self.shared.written_height()
    }

    /// The root of the current state.
    pub fn root(&self) -> Hash {
        self.core().root()
    }

    /// What the current root says of the log besides its content.
    pub fn shape(&self) -> Shape {
        *self.core().tree.shape()
    }

    /// The root after the block at `height`, if it was applied and not pruned.
    pub fn root_at(&self, height: u64) -> Option<Hash> {
        self.core().at(height).map(|block| block.root)
    }

    /// What [`Prepared::with_payload`] attached to the last applied block.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// What came with the last change of the tip: by [`Self::promote_noted`], [`Self::rewind_noted`] or [`Self::annotate`].
    /// It is part of no root. Empty after [`Self::apply`].
    pub fn note(&self) -> &[u8] {
        &self.note
    }

    /// Replaces the tip's note.
    ///
    /// # Errors
    /// [`Error::Stale`] before the first block, [`Error::TooLong`] past 16 MiB, [`Error::Poisoned`].
    pub fn annotate(&mut self, note: Vec<u8>) -> Result<Pending, Error> {
        self.shared.check()?;
        let height = self.height().ok_or(Error::Stale { height: 0 })?;
        let id = self.tip().0;
        self.write_tip(id, height, note)
    }

    /// The write that makes `id` the tip with a note.
    pub(crate) fn write_tip(&mut self, id: u64, height: u64, note: Vec<u8>) -> Result<Pending, Error> {
        check_note(&note)?;
        self.note.clone_from(&note);
        let row = TipRow { seq: self.next_seq, id, note };
        self.next_seq += 1;
        let shape = self.shape();
        Ok(Pending::new(Arc::clone(&self.shared), Write::Tip { row, height, shape }))
    }

    /// What was attached to the block at `height`, if it is written.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or what the log reports.
    pub fn payload_at(&self, height: u64) -> Result<Option<Vec<u8>>, Error> {
        self.shared.check()?;
        let Some(BlockId(id)) = self.block_at(height) else { return Ok(None) };
        Ok(self.shared.log.block(id)?.map(|row| row.payload))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.core().state.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The contract code with this hash, if some applied or held block put it. Reads the log; keep what is used often.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or what the log reports.
    pub fn code(&self, hash: &[u8; 32]) -> Result<Option<Arc<[u8]>>, Error> {
        if let Some((_, code)) = self.core().fresh_codes.get(hash) {
            return Ok(Some(Arc::clone(code)));
        }
        for branch in self.branches.values() {
            if let Some(code) = branch.code(hash) {
                return Ok(Some(code));
            }
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
    /// [`Error::Height`], [`Error::StaleLocator`], [`Error::Unchanged`], [`Error::TooLong`], [`Error::Poisoned`].
    pub fn prepare(&self, delta: Delta, height: u64) -> Result<Prepared, Error> {
        self.shared.check()?;
        let core = self.core();
        let expected = core.height().map_or(0, |height| height + 1);
        if height != expected {
            return Err(Error::Height { expected, got: height });
        }
        let log = &*self.shared.log;
        let effect = core.state.compute(
            log,
            None,
            TreeView::from(&core.tree).telling(core.forks.par()),
            self.params.hash,
            delta,
            height,
        )?;
        Ok(self.prepared(core.tip_id(), effect))
    }

    pub(crate) fn prepared(&self, parent_id: u64, effect: Effect) -> Prepared {
        Prepared { shared: Arc::clone(&self.shared), parent_id, ground: None, effect, payload: Vec::new() }
    }

    /// Makes a prepared block the tip in memory. Its write is returned, to be done here or on another thread, in order.
    /// Blocks that were held beside it are gone. Large blocks are shared with those threads of the current
    /// rayon pool that have nothing else to do.
    ///
    /// # Errors
    /// [`Error::Stale`] if the block was prepared on another tip or by another store; nothing has changed then.
    /// [`Error::Poisoned`].
    pub fn apply(&mut self, prepared: Prepared) -> Result<Pending, Error> {
        self.shared.check()?;
        let Prepared { shared, parent_id, ground, mut effect, payload } = prepared;
        let height = effect.height;
        if !Arc::ptr_eq(&shared, &self.shared) || parent_id != self.tip().0 {
            return Err(Error::Stale { height });
        }
        if let (Some(overlay), State::Resident(state)) = (&ground, &self.core().state) {
            effect.lower(&Over { state, overlay });
        }
        let id = self.new_id();
        let parent = self.root();
        let batch = self.batch(&mut effect, id, parent_id, parent, payload.clone(), true);
        self.advance(effect, &batch, payload);
        self.note.clear();
        Ok(Pending::new(shared, Write::Block(Box::new(batch))))
    }

    pub(crate) const fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Makes a block the tip in memory.
    pub(crate) fn advance(&mut self, effect: Effect, batch: &Batch, payload: Vec<u8>) {
        self.payload = payload;
        let seq = batch.block.seq;
        let codes = batch.codes.iter().map(|(hash, code)| (*hash, (seq, Arc::clone(code))));
        let bytes = batch.extents.iter().map(|rows| rows.bytes.len() as u64).sum();
        let ahead = self.core().ahead(&effect);
        let gone = match &self.core().state {
            State::Paged(paged) => paged.gone(&effect.steps),
            State::Resident(_) => Vec::new(),
        };
        let mut core = self.core.write();
        core.apply(effect, ahead, &batch.block);
        core.fresh_codes.extend(codes);
        // What rayon may wait for is done where others can read.
        let core = RwLockWriteGuard::downgrade(core);
        if let State::Paged(paged) = &core.state {
            paged.cache_block(&gone);
        }
        let tip = core.tip_id();
        self.job.applied(&core, seq, bytes);
        drop(core);
        self.branches.retain(|id, branch| *id != tip && branch.overlay.stands_on(tip));
    }

    /// A block as it goes to the log.
    pub(crate) fn batch(
        &mut self,
        effect: &mut Effect,
        id: u64,
        parent_id: u64,
        parent: Hash,
        payload: Vec<u8>,
        committed: bool,
    ) -> Batch {
        let extents = effect.rows.iter().map(|rows| rows.len() as u64).sum();
        let block = BlockRow {
            seq: self.next_seq,
            committed,
            id,
            parent_id,
            height: effect.height,
            parent,
            root: effect.tree.root,
            first_extent: self.next_extent,
            extents,
            first_sn: effect.first_sn,
            shape: effect.tree.shape,
            payload,
        };
        self.next_seq += 1;
        self.next_extent += extents;
        let rows = Arc::new(std::mem::take(&mut effect.rows));
        // Of a staged block there are none left, but those that it kept.
        if matches!(self.core().state, State::Paged(_)) && effect.kept.is_none() {
            effect.kept = Some(Arc::clone(&rows));
        }
        let extents = if self.shared.log.keeps_entries() { rows } else { Arc::default() };
        Batch { block, extents, codes: effect.delta.codes.clone() }
    }

    pub(crate) fn set_payload(&mut self, payload: Vec<u8>) {
        self.payload = payload;
    }

    /// Applies a prepared block and writes it to the log.
    ///
    /// # Errors
    /// Those of [`Self::apply`] and of [`Pending::write`].
    pub fn commit(&mut self, prepared: Prepared) -> Result<(), Error> {
        self.apply(prepared)?.write()
    }
}

/// # Errors
/// [`Error::TooLong`].
pub(crate) const fn check_note(note: &[u8]) -> Result<(), Error> {
    if note.len() > MAX_PAYLOAD_LEN {
        return Err(Error::TooLong { what: "note", len: note.len(), max: MAX_PAYLOAD_LEN });
    }
    Ok(())
}
