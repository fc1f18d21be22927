//! Reads the state after one block: the tip, a block of the history, or a fork.

use std::sync::{Arc, OnceLock};

use parking_lot::RwLockReadGuard;
use phalanx_merkle_proof::{Hash, Params, Shape};

use crate::{
    commit::{Core, Overlaid, Overlay, Past},
    state::{Arena, BaseState as _, Paged, Session, State, StateView as _, Wait},
    types::{Error, Locator, Lookup},
};

/// Reader of the state after a block, for any number of threads.
///
/// Holds a lock: no block is applied while a reader exists, so keep it only for a few reads.
#[derive(Debug)]
pub struct Reader<'s> {
    pub(crate) core: RwLockReadGuard<'s, Core>,
    pub(crate) at: At<'s>,
    /// Entries read from the log, for a paged state.
    arena: OnceLock<Arc<Arena>>,
}

/// State of a reader.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At<'s> {
    Tip,
    /// The state this many blocks before the tip.
    Past(usize),
    /// The state of a fork.
    Fork(&'s Overlay),
}

impl<'s> Reader<'s> {
    pub(crate) const fn new(core: RwLockReadGuard<'s, Core>, at: At<'s>) -> Self {
        Self { core, at, arena: OnceLock::new() }
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
        match (&self.core.state, self.at) {
            (State::Resident(state), At::Tip) => state.find(key).map(|id| state.entry(id).1),
            (State::Resident(state), At::Past(depth)) => self.core.find_past(state, key, depth).map(|was| was.value),
            (State::Resident(state), At::Fork(overlay)) => {
                let over = Overlaid { state, overlay };
                over.find(key).map(|id| over.entry(id).1)
            }
            (State::Paged(paged), _) => self.get_on_disk(paged, key),
        }
    }

    fn get_on_disk(&self, paged: &Paged, key: &[u8]) -> Option<&[u8]> {
        let session = &self.session(paged);
        let id = match self.at {
            At::Tip => session.find(key),
            At::Past(depth) => self.past_of(session, depth).find(key),
            At::Fork(overlay) => Overlaid { state: session, overlay }.find(key),
        };
        self.value_of(session, id)
    }

    /// Checks that no read failed. After a failure the store cannot be used any more: a block cannot be prepared on
    /// values that only seemed absent.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn check(&self) -> Result<(), Error> {
        self.core.shared.check_read()
    }

    /// Locator of an existing key, to read and change it again. Marks that only a fork or an earlier block has get none.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> Option<Locator> {
        let locator = match &self.core.state {
            State::Resident(state) => state.locator(state.find(key)?),
            State::Paged(paged) => {
                let session = &self.session(paged);
                let id = session.find(key);
                self.noted(session);
                paged.locator(session.written(id?).sn)
            }
        };
        let there = match self.at {
            At::Tip => true,
            At::Past(_) | At::Fork(_) => self.get(key).is_some(),
        };
        there.then_some(locator)
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
        let lookups = keys.clone().map(Lookup::Key);
        match (&self.core.state, self.at) {
            (State::Resident(state), At::Tip) => {
                state.find_many(lookups, |id| {
                    found(id.map(|id| (state.entry(id).1, Some(state.locator(id)))));
                });
            }
            (State::Paged(paged), At::Tip) => {
                let session = &self.session(paged);
                session.find_many(lookups, |id| {
                    found(id.map(|id| (session.entry(id).1, Some(paged.locator(session.written(id).sn)))));
                });
                self.noted(session);
            }
            (_, At::Past(_) | At::Fork(_)) => {
                keys.for_each(|key| found(self.get(key).map(|value| (value, self.locate(key)))));
            }
        }
    }

    /// Value of a located key; `None` if the key was deleted since.
    #[inline]
    pub fn value(&self, locator: Locator) -> Option<&[u8]> {
        let (key, value) = self.located(locator)?;
        match self.at {
            At::Tip => Some(value),
            At::Past(_) | At::Fork(_) => self.get(key),
        }
    }

    /// Key of a locator, with its value in the committed state.
    #[inline]
    pub(crate) fn located(&self, locator: Locator) -> Option<(&[u8], &[u8])> {
        match &self.core.state {
            State::Resident(state) => Some(state.entry(state.live(locator)?)),
            State::Paged(paged) => {
                let session = &self.session(paged);
                let id = paged.position(locator).and_then(|sn| session.live(sn));
                self.noted(session);
                let item = self.arena().get(id?);
                Some((item.key(), item.value()))
            }
        }
    }

    /// Prefetches the value of a located key, for a caller that reads it shortly.
    #[inline]
    pub fn prefetch(&self, locator: Locator) {
        if let State::Resident(state) = &self.core.state {
            state.prefetch_located(locator);
        }
    }

    /// Hands all keys of the committed state with their values to `visit`, in an arbitrary order, whatever block the
    /// reader is at.
    ///
    /// # Errors
    /// For a paged state, what reading the log reports, after some keys were visited.
    pub fn each_committed(&self, mut visit: impl FnMut(&[u8], &[u8])) -> Result<(), Error> {
        match &self.core.state {
            State::Resident(state) => state.iter().for_each(|(key, value)| visit(key, value)),
            State::Paged(paged) => paged.each(&*self.core.shared.log, &mut visit)?,
        }
        Ok(())
    }

    #[inline]
    fn arena(&self) -> &Arc<Arena> {
        self.arena.get_or_init(Arc::default)
    }

    /// Session of this reader on a paged state.
    pub(crate) fn session<'r>(&'r self, paged: &'r Paged) -> Session<'r> {
        paged.session(&*self.core.shared.log, Arc::clone(self.arena()), Wait::Blocking)
    }

    /// Poisons the store if a read failed.
    pub(crate) fn noted(&self, session: &Session<'_>) {
        if session.check().is_err() {
            self.core.shared.could_not_read();
        }
    }

    fn value_of(&self, session: &Session<'_>, id: Option<u32>) -> Option<&[u8]> {
        self.noted(session);
        match self.at {
            At::Fork(overlay) => overlay.value(id?).or_else(|| Some(self.arena().get(id?).value())),
            At::Tip | At::Past(_) => Some(self.arena().get(id?).value()),
        }
    }

    /// The state `depth` blocks ago.
    pub(crate) fn past_of<'r>(&'r self, session: &'r Session<'r>, depth: usize) -> Past<'r> {
        Past { session, history: &self.core.history, depth }
    }

    /// Genesis parameters of the store.
    pub fn params(&self) -> &Params {
        &self.core.params
    }

    /// Height of the block; `None` before genesis.
    pub fn height(&self) -> Option<u64> {
        match self.at {
            At::Tip => self.core.height(),
            At::Past(depth) => self.core.chain.iter().rev().nth(depth).map(|block| block.height),
            At::Fork(overlay) => {
                let above = overlay.depth_above(self.core.tip_id()).unwrap_or_default();
                Some((self.core.height().map_or(0, |height| height + 1) + above as u64).saturating_sub(1))
            }
        }
    }

    /// Root of the state.
    pub fn root(&self) -> Hash {
        match self.at {
            At::Tip => self.core.root(),
            At::Past(depth) => self.past(depth).1,
            At::Fork(overlay) => overlay.own().map_or_else(|| self.core.root(), |layer| layer.tree.root),
        }
    }

    /// Shape of the log under the root.
    pub fn shape(&self) -> Shape {
        match self.at {
            At::Tip => *self.core.tree.shape(),
            At::Past(depth) => self.past(depth).0,
            At::Fork(overlay) => overlay.own().map_or_else(|| *self.core.tree.shape(), |layer| layer.tree.shape),
        }
    }

    fn past(&self, depth: usize) -> (Shape, Hash) {
        let undo = depth.checked_sub(1).and_then(|depth| self.core.history.iter().rev().nth(depth));
        undo.map_or_else(|| (*self.core.tree.shape(), self.core.root()), |undo| (undo.tree.shape, undo.tree.root))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        match self.at {
            At::Tip => self.core.state.len(),
            At::Past(_) => (self.shape().active - self.core.params.sentinels.count()) as usize,
            // Sentinels are active, too.
            At::Fork(_) => (self.shape().active - self.core.params.sentinels.count()) as usize,
        }
    }

    /// Returns true if there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
