//! The handle of a store: opens it, and answers for the tip.

use crate::recovery::checkpoint;
use std::{collections::HashMap, path::Path, sync::Arc};

use parking_lot::{RwLock, RwLockReadGuard};
use phalanx_merkle_proof::{Hash, Params, Shape};

use super::{forks::ForkState, link::Link, reader::Reader, snapshot::Snapshot};
use crate::{
    commit::{Core, Pins},
    log::{BlockRecord, Disk, Opening, Place, Shared, open_log},
    recovery::{Job, Opened, Recovered, Recovery},
    state::State,
    types::{Access, BlockId, Error, Memory, StoreConfig, Tail},
};

/// Authenticated key-value store: the state of a chain, with one root per block.
///
/// Any number of threads read the current state ([`Self::read`], [`Self::snapshot`]). A block goes through
/// [`Self::prepare`] (computes the root, changes nothing), [`Self::apply`] (changes memory) and [`Pending::write`](crate::Pending::write)
/// (writes the log, on any thread); [`Self::commit`] does the last two. Blocks that may never be committed are forks,
/// siblings and generations of them: see [`Self::add_fork`].
///
/// A failed write poisons the handle: memory can still be read, and every call that can fail returns
/// [`Error::Poisoned`] until the store is opened again.
#[derive(Debug)]
pub struct Store {
    pub(super) params: Params,
    pub(crate) core: Arc<RwLock<Core>>,
    pub(crate) shared: Arc<Shared>,
    /// Forks by id.
    pub(crate) forks: HashMap<u64, ForkState>,
    pub(super) payload: Vec<u8>,
    pub(super) note: Vec<u8>,
    pub(super) next_extent: u64,
    pub(crate) next_seq: u64,
    pub(crate) next_id: u64,
    opened: Opened,
    tail: Tail,
    pub(crate) job: Job,
    /// Way of prefetchers to the state.
    pub(super) link: Arc<Link>,
}

impl Drop for Store {
    fn drop(&mut self) {
        self.link.cut();
        // The thread that writes a checkpoint keeps the log open.
        match Arc::get_mut(&mut self.core) {
            Some(core) => self.job.close(core.get_mut()),
            // Snapshots may still be read.
            None => self.job.finish(&self.core.read_recursive()),
        }
    }
}

impl Store {
    /// Opens a store; with [`Access::Create`] an absent or empty directory becomes one. Recovers the state from the last checkpoint and the log. Staged
    /// forks on top of the tip are restored ([`Self::forks`]).
    ///
    /// Takes time in proportion to the log since the checkpoint, and for a resident state to the state. Uses the
    /// current rayon pool.
    ///
    /// # Errors
    /// [`Error::NoStore`], [`Error::OtherBackend`], [`Error::Locked`], [`Error::Format`], [`Error::Corrupt`],
    /// [`Error::Behind`], or what the file system reports. After any of them no stored byte has changed.
    pub fn open(config: StoreConfig) -> Result<Self, Error> {
        let StoreConfig {
            backend,
            durability,
            params,
            salt,
            expected_min_height,
            first_height,
            history: window,
            memory,
            reading,
            access,
            contents,
            checkpoint_bytes,
            thread_start,
            fork_join,
            faults,
        } = config;
        let (dir, disk) = (backend.path().map(Path::to_path_buf), Disk::new(faults));
        let place = Place::find(&backend, access, &params)?;
        let checkpoint = match (&dir, &place) {
            (Some(dir), Some(place)) => checkpoint::load(dir, &params, &place.marks, &disk),
            _ => Ok(None),
        };
        let (past_cache, note) = (memory == Memory::Resident, checkpoint::note(&checkpoint));
        let opening = Opening { access, durability, past_cache, reading, params: &params, note, disk: disk.clone() };
        let log = open_log(place.as_ref(), opening)?;
        let recovery = Recovery { params, salt, window, memory, first_height };
        let Recovered { state, tree, chain, mut staged, history, next_id, opened, behind } =
            recovery.replay(&*log, checkpoint)?;
        let found = chain.last().map(|record| record.height);
        if let Some(expected) = expected_min_height.filter(|expected| found.is_none_or(|found| found < *expected)) {
            return Err(Error::Behind { found, expected });
        }
        // Nothing was changed so far.
        let (log, tail) = log.heal()?;
        let (next_extent, next_seq) = (log.next_extent(), log.tip().1);
        let note = log.take_note();
        // A checkpoint indexes blocks without their payloads.
        let payload_of = |record: &BlockRecord| {
            Ok::<_, Error>(log.block(record.id)?.map(|record| record.payload).unwrap_or_default())
        };
        let payload = chain.last().map(payload_of).transpose()?.unwrap_or_default();
        staged.iter_mut().try_for_each(|record| payload_of(record).map(|payload| record.payload = payload))?;
        let chain = chain.iter().map(Into::into).collect();
        let shared = Shared::new(log, found, access);
        if let State::Paged(paged) = &state {
            paged.set_thread_start(thread_start.clone());
        }
        let core = Core {
            params,
            contents,
            shared: Arc::clone(&shared),
            state,
            tree,
            chain,
            history: history.into(),
            window,
            pins: Pins::default(),
            first_height: first_height.unwrap_or(0),
            fresh_codes: HashMap::new(),
            thread_start,
            fork_join,
        };
        // The log as it is, until another checkpoint has its name.
        let first = core.chain.front().map(|block| block.first_sn);
        let pin = first.filter(|_| matches!(opened, Opened::Checkpoint { .. })).map(|first| core.pins.pin(first));
        let core = Arc::new(RwLock::new(core));
        let forks = HashMap::new();
        let length =
            dir.as_deref().filter(|_| matches!(opened, Opened::Checkpoint { .. })).map_or(0, checkpoint::length);
        let mut job = Job::new(dir.filter(|_| access != Access::Read), checkpoint_bytes, (length, behind), disk);
        pin.into_iter().for_each(|pin| job.hold(pin));
        let link = Arc::default();
        let mut store = Self {
            params,
            core,
            shared,
            forks,
            payload,
            note,
            next_extent,
            next_seq,
            next_id,
            opened,
            tail,
            job,
            link,
        };
        store.restore(staged)?;
        Ok(store)
    }

    /// Way in which the store was opened.
    pub const fn opened(&self) -> &Opened {
        &self.opened
    }

    /// End of the log as opening found it: what was torn or lost.
    pub const fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Right that the store was opened with.
    pub fn access(&self) -> Access {
        self.shared.access()
    }

    /// Reader of the state after the last applied block.
    #[inline]
    pub fn read(&self) -> Reader<'_> {
        Reader::of_tip(&self.core)
    }

    /// Snapshot of the state after a block, readable from any thread while the store goes on.
    ///
    /// # Errors
    /// [`Error::Gone`].
    pub fn snapshot(&self, block: BlockId) -> Result<Snapshot, Error> {
        let overlay = self.forks.get(&block.0).map(|fork| Arc::clone(&fork.overlay));
        let snapshot = Snapshot { core: Arc::clone(&self.core), id: block.0, overlay };
        snapshot.read()?;
        Ok(snapshot)
    }

    /// Id of the last applied block. The state before the first block has an id, too.
    pub fn tip(&self) -> BlockId {
        BlockId(self.core().tip_id())
    }

    /// Block at a height, if it was applied and not pruned.
    pub fn block_at(&self, height: u64) -> Option<BlockId> {
        self.core().at(height).map(|block| BlockId(block.id))
    }

    #[inline]
    pub(crate) fn core(&self) -> RwLockReadGuard<'_, Core> {
        // Readers of one thread may nest, even while a block waits for a snapshot on another thread.
        self.core.read_recursive()
    }

    /// Genesis parameters of the store.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// Height of the last applied block; `None` before genesis.
    pub fn height(&self) -> Option<u64> {
        self.core().height()
    }

    /// Maximum number of blocks that can be rewound.
    pub fn history(&self) -> usize {
        self.core().window
    }

    /// Height of the last block in the log; `None` if there is none.
    pub fn written_height(&self) -> Option<u64> {
        self.shared.written_height()
    }

    /// Root of the current state.
    pub fn root(&self) -> Hash {
        self.core().root()
    }

    /// Shape of the log under the current root: its end, floor and number of active positions.
    pub fn shape(&self) -> Shape {
        *self.core().tree.shape()
    }

    /// Root after the block at `height`, if it was applied and not pruned.
    pub fn root_at(&self, height: u64) -> Option<Hash> {
        self.core().at(height).map(|block| block.root)
    }

    /// Payload of the last applied block, by [`Prepared::with_payload`](crate::Prepared::with_payload).
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Note of the last change of the tip, by [`Self::apply_fork_noted`], [`Self::rewind_noted`] or [`Self::annotate`].
    ///
    /// A note is part of no root. Empty after [`Self::apply`].
    pub fn note(&self) -> &[u8] {
        &self.note
    }

    /// Payload of the block at `height`, if it is written.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or what the log reports.
    pub fn payload_at(&self, height: u64) -> Result<Option<Vec<u8>>, Error> {
        self.shared.check()?;
        let Some(BlockId(id)) = self.block_at(height) else { return Ok(None) };
        Ok(self.shared.log.block(id)?.map(|record| record.payload))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.core().state.len()
    }

    /// Returns true if there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Contract code with this hash, if an applied block or a fork put it. Reads the log: cache what is used often.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or what the log reports.
    pub fn code(&self, hash: &[u8; 32]) -> Result<Option<Arc<[u8]>>, Error> {
        if let Some((_, code)) = self.core().fresh_codes.get(hash) {
            return Ok(Some(Arc::clone(code)));
        }
        for fork in self.forks.values() {
            if let Some(code) = fork.code(hash) {
                return Ok(Some(code));
            }
        }
        self.shared.check()?;
        self.shared.log.code(hash)
    }
}
