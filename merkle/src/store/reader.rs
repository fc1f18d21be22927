//! Reads the state after one block: the tip, a block of the history, or a fork.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{RwLock, RwLockReadGuard};
use phalanx_merkle_proof::{Hash, Params, Shape};

use super::{
    held::{At, Held},
    prove::ProvenTwigs,
};
use crate::{
    commit::{Core, Overlay},
    state::{Arena, Later, Paged, State},
    types::{BlockId, Delta, Error, Locator},
};

/// Times that a lookup reads the disk without the lock. One is enough unless keys collide, a key was deleted or moved since the
/// reader's block, or blocks are rewound meanwhile; after the last one it reads under the lock.
const ROUNDS: usize = 6;

/// Reader of the state after a block, for any number of threads.
///
/// A reader of a resident state holds a lock: no block is applied while it exists, so keep it only for a few reads. One of a paged
/// state holds the lock for a lookup in memory only, and reads the disk without it: blocks go on, and every answer is still
/// of the reader's block. If that block is dropped, rewound or too far behind the tip meanwhile, keys seem absent and
/// [`Self::check`] says why. Proofs and [`Self::each_committed`] hold the lock until they return.
#[derive(Debug)]
pub struct Reader<'s> {
    source: Source<'s>,
}

#[derive(Debug)]
enum Source<'s> {
    /// A resident state, whose memory is handed out.
    Held(Held<'s>),
    /// A paged state, of which copies are handed out.
    Paged(Pages<'s>),
}

/// Reader of a paged state.
#[derive(Debug)]
struct Pages<'s> {
    core: &'s RwLock<Core>,
    id: u64,
    /// Fork that the block was when the reader was made.
    overlay: Option<&'s Overlay>,
    /// Entries read from the log.
    arena: Arc<Arena>,
    /// True once the block could not be read any more.
    gone: AtomicBool,
    params: Params,
    height: Option<u64>,
    root: Hash,
    shape: Shape,
    len: usize,
}

/// Result of a lookup, if it takes no read of the disk.
type AtHand<T> = Option<Option<T>>;

/// A state under the lock, until a call ends or as long as the reader.
enum Lent<'r, 's> {
    Reader(&'r Held<'s>),
    Call(Held<'r>),
}

impl<'r, 's: 'r> Deref for Lent<'r, 's> {
    type Target = Held<'r>;

    fn deref(&self) -> &Held<'r> {
        match self {
            Self::Reader(held) => held,
            Self::Call(held) => held,
        }
    }
}

/// Place of a block in the chain, or on top of it.
///
/// # Errors
/// [`Error::Gone`].
fn place<'o>(core: &Core, id: u64, overlay: Option<&'o Overlay>) -> Result<At<'o>, Error> {
    let tip = core.tip_id();
    if tip == id {
        return Ok(At::Tip);
    }
    if let Some(depth) = core.depth_of(id) {
        return Ok(At::Past(depth));
    }
    let overlay = overlay.filter(|overlay| overlay.depth_above(tip).is_some());
    overlay.map(At::Fork).ok_or(Error::Gone { block: BlockId(id) })
}

impl<'s> Pages<'s> {
    /// The state under the lock.
    fn held<'r>(&'r self, later: Option<&'r Later>) -> Result<Held<'r>, Error> {
        // Readers of one thread may nest, even while a block waits for a snapshot on another thread.
        let core = self.core.read_recursive();
        let at = place(&core, self.id, self.overlay).inspect_err(|_| self.gone.store(true, Ordering::Relaxed))?;
        Ok(Held::with(core, at, Arc::clone(&self.arena), later))
    }

    /// Runs a lookup under the lock, and again when what it missed was read without the lock; `None` if the block is gone.
    fn ask<T>(&self, look: impl Fn(&Held<'_>, &Paged) -> T) -> Option<T> {
        let later = Later::default();
        for _ in 0..ROUNDS {
            let held = self.held(Some(&later)).ok()?;
            let State::Paged(paged) = &held.core.state else { break };
            let found = look(&held, paged);
            let shared = Arc::clone(&held.core.shared);
            match later.plan(paged, &*shared.log) {
                Ok(None) => return Some(found),
                Ok(Some(plan)) => {
                    drop((found, held));
                    if later.read(plan, &*shared.log).is_err() {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        // An error counts if it comes under the lock as well: what was planned may have been pruned.
        let held = self.held(None).ok()?;
        match &held.core.state {
            State::Paged(paged) => Some(look(&held, paged)),
            State::Resident(_) => None,
        }
    }

    /// Runs a lookup under the lock, if it finds all in memory.
    fn glance<T>(&self, look: impl Fn(&Held<'_>, &Paged) -> Option<T>) -> AtHand<T> {
        let later = Later::once();
        // A block that is gone has no keys, as for every lookup.
        let Ok(held) = self.held(Some(&later)) else { return Some(None) };
        let State::Paged(paged) = &held.core.state else { return None };
        let found = look(&held, paged);
        later.had_all(paged).then_some(found)
    }

    fn value(&self, id: u32) -> &[u8] {
        self.overlay.and_then(|overlay| overlay.value(id)).unwrap_or_else(|| self.arena.get(id).value())
    }
}

impl<'s> Reader<'s> {
    /// Reader of a block.
    ///
    /// # Errors
    /// [`Error::Gone`].
    pub(crate) fn new(core: &'s RwLock<Core>, id: u64, overlay: Option<&'s Overlay>) -> Result<Self, Error> {
        let guard = core.read_recursive();
        let at = place(&guard, id, overlay)?;
        Ok(Self::at(core, guard, id, at))
    }

    /// Reader of the tip.
    #[inline]
    pub(crate) fn of_tip(core: &'s RwLock<Core>) -> Self {
        // Readers of one thread may nest, even while a block waits for a snapshot on another thread.
        let guard = core.read_recursive();
        let id = guard.tip_id();
        Self::at(core, guard, id, At::Tip)
    }

    #[inline]
    fn at(core: &'s RwLock<Core>, guard: RwLockReadGuard<'s, Core>, id: u64, at: At<'s>) -> Self {
        let held = Held::new(guard, at);
        if matches!(held.core.state, State::Resident(_)) {
            return Self { source: Source::Held(held) };
        }
        let overlay = if let At::Fork(overlay) = at { Some(overlay) } else { None };
        let (params, height, root) = (*held.params(), held.height(), held.root());
        let (shape, len) = (held.shape(), held.len());
        let (arena, gone) = (Arc::default(), AtomicBool::new(false));
        Self { source: Source::Paged(Pages { core, id, overlay, arena, gone, params, height, root, shape, len }) }
    }

    /// The state under the lock.
    fn lent(&self) -> Result<Lent<'_, 's>, Error> {
        Ok(match &self.source {
            Source::Held(held) => Lent::Reader(held),
            Source::Paged(pages) => Lent::Call(pages.held(None)?),
        })
    }

    /// Value of a key.
    ///
    /// At the tip: expected O(1), two cache misses. On a fork: at most ten or so more probes, however many uncommitted
    /// blocks are below ([`Strata`](phalanx_memory::Strata)). At an earlier block: a probe per block since.
    ///
    /// For a paged state ([`Memory`](crate::Memory)) entries that are not cached are read from the log, one extent per
    /// key, and stay in memory as long as the reader. There, a caller that gets `None` must also call [`Self::check`].
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        match &self.source {
            Source::Held(held) => held.get(key),
            Source::Paged(pages) => pages.ask(|held, paged| held.find_on_disk(paged, key))?.map(|id| pages.value(id)),
        }
    }

    /// Value of a key if it takes no read of the disk, else `None`. The inner `None` is that of [`Self::get`].
    #[inline]
    pub fn get_at_hand(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        match &self.source {
            Source::Held(held) => Some(held.get(key)),
            Source::Paged(pages) => {
                let found = pages.glance(|held, paged| held.find_on_disk(paged, key))?;
                Some(found.map(|id| pages.value(id)))
            }
        }
    }

    /// Checks that no read failed, and that the block could be read. After a failed read the store cannot be used any more: a
    /// block cannot be prepared on values that only seemed absent.
    ///
    /// # Errors
    /// [`Error::Poisoned`] after a failed read; [`Error::Gone`] if the block was discarded or rewound, or is too far behind the
    /// tip by now.
    pub fn check(&self) -> Result<(), Error> {
        match &self.source {
            Source::Held(held) => held.check(),
            Source::Paged(pages) => {
                pages.core.read_recursive().shared.check_read()?;
                let gone = pages.gone.load(Ordering::Relaxed);
                if gone { Err(Error::Gone { block: BlockId(pages.id) }) } else { Ok(()) }
            }
        }
    }

    /// Locator of an existing key, to read and change it again. Marks that only a fork or an earlier block has get none.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> Option<Locator> {
        match &self.source {
            Source::Held(held) => held.locate(key),
            Source::Paged(pages) => pages.ask(|held, paged| held.locate_on_disk(paged, key))?,
        }
    }

    /// Values of many keys: hands out value and locator ([`Self::locate`]) per key, in order. At the tip cache misses
    /// overlap, which is several times faster than single reads.
    ///
    /// For a paged state, a caller that gets `None` must also call [`Self::check`].
    #[inline]
    pub fn get_many<'k>(
        &self,
        keys: impl ExactSizeIterator<Item = &'k [u8]> + Clone,
        mut found: impl FnMut(Option<(&[u8], Option<Locator>)>),
    ) {
        match &self.source {
            Source::Held(held) => held.get_many(keys, found),
            Source::Paged(pages) => {
                let ids = pages.ask(|held, paged| held.find_many_on_disk(paged, keys.clone()));
                let ids = ids.unwrap_or_else(|| vec![None; keys.len()]);
                ids.into_iter().for_each(|at| found(at.map(|(id, locator)| (pages.value(id), locator))));
            }
        }
    }

    /// Value of a located key; `None` if the key was deleted since, or the locator is stale ([`Locator`]).
    #[inline]
    pub fn value(&self, locator: Locator) -> Option<&[u8]> {
        match &self.source {
            Source::Held(held) => held.value(locator),
            Source::Paged(pages) => {
                pages.ask(|held, paged| held.value_on_disk(paged, locator))?.map(|id| pages.value(id))
            }
        }
    }

    /// Prefetches the value of a located key, for a caller that reads it shortly.
    #[inline]
    pub fn prefetch(&self, locator: Locator) {
        if let Source::Held(held) = &self.source {
            held.prefetch(locator);
        }
    }

    /// Hands all keys of the committed state with their values to `visit`, in an arbitrary order, whatever block the
    /// reader is at. Holds the store's lock until all are visited.
    ///
    /// # Errors
    /// [`Error::Gone`]; for a paged state, what reading the log reports, after some keys were visited.
    pub fn each_committed(&self, visit: impl FnMut(&[u8], &[u8])) -> Result<(), Error> {
        self.lent()?.each_committed(visit)
    }

    /// Genesis parameters of the store.
    pub fn params(&self) -> &Params {
        match &self.source {
            Source::Held(held) => held.params(),
            Source::Paged(pages) => &pages.params,
        }
    }

    /// Height of the block; `None` before genesis.
    pub fn height(&self) -> Option<u64> {
        match &self.source {
            Source::Held(held) => held.height(),
            Source::Paged(pages) => pages.height,
        }
    }

    /// Root of the state.
    pub fn root(&self) -> Hash {
        match &self.source {
            Source::Held(held) => held.root(),
            Source::Paged(pages) => pages.root,
        }
    }

    /// Shape of the log under the root.
    pub fn shape(&self) -> Shape {
        match &self.source {
            Source::Held(held) => held.shape(),
            Source::Paged(pages) => pages.shape,
        }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        match &self.source {
            Source::Held(held) => held.len(),
            Source::Paged(pages) => pages.len,
        }
    }

    /// Returns true if there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Proofs, under the store's lock.
impl Reader<'_> {
    /// Proves the value of a key under [`Self::root`], for
    /// [`verify_inclusion`](phalanx_merkle_proof::verify_inclusion). `None` if the key does not exist.
    ///
    /// A proof is about 700 bytes and an entry. The digests of recent values are in memory; otherwise a twig of 2048
    /// entries, about 200 KB, is read from the log and hashed, in about half a millisecond.
    ///
    /// # Errors
    /// [`Error::NotWritten`] if the value came with a block of more than a million changed keys whose write is pending;
    /// [`Error::Corrupt`] if the log differs from the tree; [`Error::Key`] if the application cannot have the key;
    /// [`Error::Poisoned`], or what the log reports.
    pub fn prove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.lent()?.prove(key)
    }

    /// Proves that a key does not exist, for [`verify_exclusion`](phalanx_merkle_proof::verify_exclusion). `None` if it
    /// exists.
    ///
    /// # Errors
    /// Errors of [`Self::prove`].
    pub fn prove_absence(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.lent()?.prove_absence(key)
    }

    /// Proves the values or the absence of many keys, for [`verify_keys`](phalanx_merkle_proof::verify_keys). Shared
    /// parts of their paths are in the proof once.
    ///
    /// # Errors
    /// Errors of [`Self::prove`].
    pub fn prove_keys<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<u8>, Error> {
        self.prove_keys_with(keys, &mut ProvenTwigs::default())
    }

    /// Proves as [`Self::prove_keys`] does, with the twigs of earlier proofs: for many proofs of one store.
    ///
    /// # Errors
    /// Errors of [`Self::prove`].
    pub fn prove_keys_with<K: AsRef<[u8]>>(&self, keys: &[K], twigs: &mut ProvenTwigs) -> Result<Vec<u8>, Error> {
        self.lent()?.prove_keys(keys, twigs)
    }

    /// Proves all keys whose hashes lie from `from` up to `to`, for
    /// [`verify_range`](phalanx_merkle_proof::verify_range), at most about `limit` of them. Returns the proof and the
    /// hash up to which it is complete.
    ///
    /// # Errors
    /// Errors of [`Self::prove`].
    pub fn prove_range(&self, from: &Hash, to: &Hash, limit: usize) -> Result<(Vec<u8>, Hash), Error> {
        self.lent()?.prove_range(from, to, limit)
    }

    /// Creates the witness of the block that `delta` makes on top of this state, for
    /// [`verify_transition`](phalanx_merkle_proof::verify_transition): the entries of its keys, the predecessors of new
    /// and deleted keys, the end of the log, and the entries that compaction moves.
    ///
    /// Takes an entry and at most 350 bytes per key, and 256 bytes per touched twig. Twigs that are not in memory are
    /// read from the log, half a millisecond each. At an earlier block, every new or deleted key takes time in
    /// proportion to the keys that were deleted since.
    ///
    /// # Errors
    /// [`Error::StaleLocator`], [`Error::TooLong`], and errors of [`Self::prove`].
    pub fn witness(&self, delta: &Delta) -> Result<Vec<u8>, Error> {
        self.lent()?.witness(delta)
    }
}
