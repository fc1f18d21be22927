//! The state after one block, the tip, a block of the history or a fork, as it is read under the store's lock.

use std::sync::{Arc, OnceLock};

use parking_lot::RwLockReadGuard;
use phalanx_merkle_proof::{Hash, Params, Shape};

use crate::{
    commit::{Core, Overlaid, Overlay, Past},
    state::{Arena, BaseState as _, Later, Paged, Reads, Session, State, StateView as _, Wait},
    types::{Error, Locator, Lookup},
};

/// State after a block, under the store's lock: no block is applied meanwhile.
#[derive(Debug)]
pub(crate) struct Held<'s> {
    pub(crate) core: RwLockReadGuard<'s, Core>,
    pub(crate) at: At<'s>,
    /// Entries read from the log, for a paged state.
    arena: OnceLock<Arc<Arena>>,
    /// Notes what a lookup misses, if that is to be read without the lock.
    later: Option<&'s Later>,
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

impl<'s> Held<'s> {
    pub(crate) const fn new(core: RwLockReadGuard<'s, Core>, at: At<'s>) -> Self {
        Self { core, at, arena: OnceLock::new(), later: None }
    }

    /// State whose entries go to an arena. What is not in memory is noted and seems absent.
    pub(crate) fn with(
        core: RwLockReadGuard<'s, Core>,
        at: At<'s>,
        arena: Arc<Arena>,
        later: Option<&'s Later>,
    ) -> Self {
        Self { core, at, arena: OnceLock::from(arena), later }
    }

    /// Value of a key.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        match (&self.core.state, self.at) {
            (State::Resident(state), At::Tip) => state.find(key).map(|id| state.entry(id).1),
            (State::Resident(state), At::Past(depth)) => self.core.find_past(state, key, depth).map(|was| was.value),
            (State::Resident(state), At::Fork(overlay)) => {
                let over = Overlaid { state, overlay };
                over.find(key).map(|id| over.entry(id).1)
            }
            (State::Paged(paged), _) => self.value_of(self.find_on_disk(paged, key)?),
        }
    }

    /// Id of a key in a paged state; also of an item of a fork.
    pub(super) fn find_on_disk(&self, paged: &Paged, key: &[u8]) -> Option<u32> {
        let session = &self.session(paged);
        let id = match self.at {
            At::Tip => session.find(key),
            At::Past(depth) => self.past_of(session, depth).find(key),
            At::Fork(overlay) => Overlaid { state: session, overlay }.find(key),
        };
        self.noted(session);
        id
    }

    /// Ids and locators of many keys in a paged state.
    pub(super) fn find_many_on_disk<'k>(
        &self,
        paged: &Paged,
        keys: impl ExactSizeIterator<Item = &'k [u8]> + Clone,
    ) -> Vec<Option<(u32, Option<Locator>)>> {
        let mut found = Vec::with_capacity(keys.len());
        if matches!(self.at, At::Tip) {
            let session = &self.session(paged);
            session.find_many(keys.map(Lookup::Key), |id| {
                found.push(id.map(|id| (id, Some(paged.locator(session.written(id).sn)))));
            });
            self.noted(session);
        } else {
            found.extend(keys.map(|key| Some((self.find_on_disk(paged, key)?, self.locate_on_disk(paged, key)))));
        }
        found
    }

    /// Locator of a key in a paged state.
    pub(super) fn locate_on_disk(&self, paged: &Paged, key: &[u8]) -> Option<Locator> {
        let session = &self.session(paged);
        let id = session.find(key);
        self.noted(session);
        let locator = paged.locator(session.written(id?).sn);
        let there = matches!(self.at, At::Tip) || self.find_on_disk(paged, key).is_some();
        there.then_some(locator)
    }

    /// Id of a located key in a paged state, with its value at this block. Whether the key exists at the tip does not matter to an
    /// earlier block, or a fork.
    pub(super) fn value_on_disk(&self, paged: &Paged, locator: Locator) -> Option<u32> {
        if matches!(self.at, At::Tip) {
            return self.live_on_disk(paged, locator);
        }
        let session = &self.session(paged);
        let id = paged.position(locator).and_then(|sn| session.at(sn)).filter(|id| !session.item(*id).sentinel);
        self.noted(session);
        self.find_on_disk(paged, self.arena().get(id?).key())
    }

    fn live_on_disk(&self, paged: &Paged, locator: Locator) -> Option<u32> {
        let session = &self.session(paged);
        let id = paged.position(locator).and_then(|sn| session.live(sn));
        self.noted(session);
        id
    }

    /// Checks that no read failed.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.core.shared.check_read()
    }

    /// Locator of an existing key.
    #[inline]
    pub(crate) fn locate(&self, key: &[u8]) -> Option<Locator> {
        match (&self.core.state, self.at) {
            (State::Resident(state), At::Tip) => Some(state.locator(state.find(key)?)),
            (State::Resident(state), _) => {
                let locator = state.locator(state.find(key)?);
                self.get(key).map(|_| locator)
            }
            (State::Paged(paged), _) => self.locate_on_disk(paged, key),
        }
    }

    /// Values and locators of many keys, in order.
    #[inline]
    pub(crate) fn get_many<'k>(
        &self,
        keys: impl ExactSizeIterator<Item = &'k [u8]> + Clone,
        mut found: impl FnMut(Option<(&[u8], Option<Locator>)>),
    ) {
        match (&self.core.state, self.at) {
            (State::Resident(state), At::Tip) => {
                state.find_many(keys.map(Lookup::Key), |id| {
                    found(id.map(|id| (state.entry(id).1, Some(state.locator(id)))));
                });
            }
            _ => keys.for_each(|key| found(self.get(key).map(|value| (value, self.locate(key))))),
        }
    }

    /// Value of a located key; `None` if the key was deleted since.
    #[inline]
    pub(crate) fn value(&self, locator: Locator) -> Option<&[u8]> {
        match (&self.core.state, self.at) {
            (State::Resident(state), At::Tip) => Some(state.entry(state.live(locator)?).1),
            (State::Resident(state), _) => self.get(state.entry(state.live(locator)?).0),
            (State::Paged(paged), _) => self.value_of(self.value_on_disk(paged, locator)?),
        }
    }

    /// Key of a locator.
    pub(crate) fn located(&self, locator: Locator) -> Option<&[u8]> {
        match &self.core.state {
            State::Resident(state) => Some(state.entry(state.live(locator)?).0),
            State::Paged(paged) => Some(self.arena().get(self.live_on_disk(paged, locator)?).key()),
        }
    }

    /// Prefetches the value of a located key, for a caller that reads it shortly.
    #[inline]
    pub(crate) fn prefetch(&self, locator: Locator) {
        if let State::Resident(state) = &self.core.state {
            state.prefetch_located(locator);
        }
    }

    /// Hands all keys of the committed state with their values to `visit`, in an arbitrary order, whatever block the
    /// reader is at.
    ///
    /// # Errors
    /// For a paged state, what reading the log reports, after some keys were visited.
    pub(crate) fn each_committed(&self, mut visit: impl FnMut(&[u8], &[u8])) -> Result<(), Error> {
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
        let reads = self.later.map_or(Reads::Now(Wait::Blocking), Reads::Later);
        paged.session(&self.core.tree, &*self.core.shared.log, Arc::clone(self.arena()), reads)
    }

    /// Poisons the store if a read failed.
    pub(crate) fn noted(&self, session: &Session<'_>) {
        if session.check().is_err() {
            self.core.shared.could_not_read();
        }
    }

    fn value_of(&self, id: u32) -> Option<&[u8]> {
        let over = match self.at {
            At::Fork(overlay) => overlay.value(id),
            At::Tip | At::Past(_) => None,
        };
        over.or_else(|| Some(self.arena().get(id).value()))
    }

    /// The state `depth` blocks ago.
    pub(crate) fn past_of<'r>(&'r self, session: &'r Session<'r>, depth: usize) -> Past<'r> {
        Past { session, history: &self.core.history, depth }
    }

    /// Genesis parameters of the store.
    pub(crate) fn params(&self) -> &Params {
        &self.core.params
    }

    /// Height of the block; `None` before genesis.
    pub(crate) fn height(&self) -> Option<u64> {
        match self.at {
            At::Tip => self.core.height(),
            At::Past(depth) => self.core.chain.iter().rev().nth(depth).map(|block| block.height),
            At::Fork(overlay) => {
                let above = overlay.depth_above(self.core.tip_id()).unwrap_or_default();
                Some((self.core.next_height() + above as u64).saturating_sub(1))
            }
        }
    }

    /// Root of the state.
    pub(crate) fn root(&self) -> Hash {
        match self.at {
            At::Tip => self.core.root(),
            At::Past(depth) => self.past(depth).1,
            At::Fork(overlay) => overlay.own().map_or_else(|| self.core.root(), |layer| layer.tree.root),
        }
    }

    /// Shape of the log under the root.
    pub(crate) fn shape(&self) -> Shape {
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
    pub(crate) fn len(&self) -> usize {
        match self.at {
            At::Tip => self.core.state.len(),
            At::Past(_) => (self.shape().active - self.core.params.sentinels.count()) as usize,
            // Sentinels are active, too.
            At::Fork(_) => (self.shape().active - self.core.params.sentinels.count()) as usize,
        }
    }
}
