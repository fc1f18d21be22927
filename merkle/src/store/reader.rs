use std::sync::{Arc, OnceLock};

use parking_lot::RwLockReadGuard;
use phalanx_merkle_proof::{Hash, Params, Shape};

use crate::{
    commit::{Core, Overlaid, Overlay, Past},
    state::{Arena, BaseState as _, Paged, Session, State, StateView as _, Wait},
    types::{Error, Locator, Lookup},
};

/// The state after a block, to be read by any number of threads.
///
/// Holds a lock: while a reader is around no block is applied, so keep it no longer than a few reads take.
#[derive(Debug)]
pub struct Reader<'s> {
    pub(crate) core: RwLockReadGuard<'s, Core>,
    pub(crate) at: At<'s>,
    /// What was read from the log, where the state is there.
    arena: OnceLock<Arc<Arena>>,
}

/// Which state a reader reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At<'s> {
    Tip,
    /// So many blocks before the tip.
    Past(usize),
    /// A block that is not committed.
    ForkState(&'s Overlay),
}

impl<'s> Reader<'s> {
    pub(crate) const fn new(core: RwLockReadGuard<'s, Core>, at: At<'s>) -> Self {
        Self { core, at, arena: OnceLock::new() }
    }

    /// The value of a key. At the tip: expected O(1), two cache misses. On a speculative block: the same and one probe,
    /// however many uncommitted blocks there are below. Of an earlier block: a probe per block since.
    ///
    /// Where the state is not resident ([`Memory`](crate::Memory)), what is not cached is read from the log, one extent
    /// per key, and stays in memory as long as the reader. Whoever gets nothing there asks [`Self::check`], too.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        match (&self.core.state, self.at) {
            (State::Resident(state), At::Tip) => state.find(key).map(|id| state.entry(id).1),
            (State::Resident(state), At::Past(depth)) => self.core.find_past(state, key, depth).map(|was| was.value),
            (State::Resident(state), At::ForkState(overlay)) => {
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
            At::ForkState(overlay) => Overlaid { state: session, overlay }.find(key),
        };
        self.value_of(session, id)
    }

    /// Whether everything that was asked for could be read. After a failure the store is of no further use: nothing can
    /// be prepared on what seemed to be absent.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn check(&self) -> Result<(), Error> {
        self.core.shared.check_read()
    }

    /// A fast name for a key that exists, to read it again and to change it. Keys that only an uncommitted or an earlier
    /// block holds have none.
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
            At::Past(_) | At::ForkState(_) => self.get(key).is_some(),
        };
        there.then_some(locator)
    }

    /// The values of many keys, at the tip with their cache misses overlapped, several times faster than one by one. Hands
    /// out one result per key, in order: value and, as [`Self::locate`] has it, locator.
    ///
    /// Where the state is not resident, whoever gets nothing asks [`Self::check`], too.
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
            (_, At::Past(_) | At::ForkState(_)) => {
                keys.for_each(|key| found(self.get(key).map(|value| (value, self.locate(key)))));
            }
        }
    }

    /// The value of a located key; `None` if the key was deleted since.
    #[inline]
    pub fn value(&self, locator: Locator) -> Option<&[u8]> {
        let (key, value) = self.located(locator)?;
        match self.at {
            At::Tip => Some(value),
            At::Past(_) | At::ForkState(_) => self.get(key),
        }
    }

    /// A located key, with its value in the committed state.
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

    /// Asks the cache for a located key's value, for a caller that reads it shortly.
    #[inline]
    pub fn prefetch(&self, locator: Locator) {
        if let State::Resident(state) = &self.core.state {
            state.prefetch_located(locator);
        }
    }

    /// Hands all keys of the committed state with their values to `visit`, in no order that means anything, whatever block
    /// the reader is at.
    ///
    /// # Errors
    /// Where the state is not resident, what reading the log reports, after having seen some of them.
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

    /// The state on disk, and what this reader read of it.
    pub(crate) fn session<'r>(&'r self, paged: &'r Paged) -> Session<'r> {
        paged.session(&*self.core.shared.log, Arc::clone(self.arena()), Wait::Blocking)
    }

    /// Ends the handle if something could not be read.
    pub(crate) fn noted(&self, session: &Session<'_>) {
        if session.check().is_err() {
            self.core.shared.could_not_read();
        }
    }

    fn value_of(&self, session: &Session<'_>, id: Option<u32>) -> Option<&[u8]> {
        self.noted(session);
        match self.at {
            At::ForkState(overlay) => overlay.value(id?).or_else(|| Some(self.arena().get(id?).value())),
            At::Tip | At::Past(_) => Some(self.arena().get(id?).value()),
        }
    }

    /// The state `depth` blocks ago.
    pub(crate) fn past_of<'r>(&'r self, session: &'r Session<'r>, depth: usize) -> Past<'r> {
        Past { session, history: &self.core.history, depth }
    }

    /// What fixes the meaning of roots.
    pub fn params(&self) -> &Params {
        &self.core.params
    }

    /// The block's height; `None` before genesis.
    pub fn height(&self) -> Option<u64> {
        match self.at {
            At::Tip => self.core.height(),
            At::Past(depth) => self.core.chain.iter().rev().nth(depth).map(|block| block.height),
            At::ForkState(overlay) => {
                let above = overlay.layers.iter().rev().take_while(|layer| layer.id != self.core.tip_id()).count();
                Some(self.core.height().map_or(0, |height| height + 1) + above as u64 - 1)
            }
        }
    }

    /// The root of the state.
    pub fn root(&self) -> Hash {
        match self.at {
            At::Tip => self.core.root(),
            At::Past(depth) => self.past(depth).1,
            At::ForkState(overlay) => overlay.own().map_or_else(|| self.core.root(), |layer| layer.tree.root),
        }
    }

    /// What the root says of the log besides its content.
    pub fn shape(&self) -> Shape {
        match self.at {
            At::Tip => *self.core.tree.shape(),
            At::Past(depth) => self.past(depth).0,
            At::ForkState(overlay) => overlay.own().map_or_else(|| *self.core.tree.shape(), |layer| layer.tree.shape),
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
            At::ForkState(_) => (self.shape().active - self.core.params.sentinels.count()) as usize,
        }
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
