//! What a block is going to change, readable before its root is known: the next block executes on it meanwhile.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use parking_lot::Mutex;
use phalanx_memory::{prefetch, prefetch_write};

use crate::{
    BlockId, Delta, Error, Locator, Reader, Store,
    delta::{Operation, RUN, Target},
    keyed::Keyed,
    par::Par,
    resident::{Lookup, Resident},
    state::State,
};

/// The changes of a block on top of the tip that is neither hashed nor applied. See [`Store::read_draft`].
///
/// Four bytes for each key of the state, which the next draft takes over, and where operations name keys by their bytes, up
/// to 22 for each of those. The values stay where the delta has them.
#[derive(Debug)]
pub struct Draft {
    /// The tip below it.
    base: u64,
    delta: Arc<Delta>,
    marks: Marks,
    names: Names,
    /// Where the marks go when this is dropped.
    home: Spare,
}

/// The marks of the last draft.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spare(Arc<Mutex<Marks>>);

impl Spare {
    /// Bytes that are kept for the next draft.
    pub(crate) fn memory(&self) -> usize {
        self.0.lock().places.capacity() * size_of::<AtomicU32>()
    }
}

/// Nanoseconds that one operation takes to be entered.
const NANOS: usize = 8;

/// Parts that a run is entered in, so that the last of many threads is not waited for.
const PIECES: usize = 8;
const PIECE: usize = RUN / PIECES;

/// Places that are asked for before the first of them is needed.
const WAVE: usize = 32;

/// By id of a located key the last operation on it.
#[derive(Debug, Default)]
struct Marks {
    /// In the upper eight bits whose it is, then the number of an operation plus one. Others' are smaller.
    places: Vec<AtomicU32>,
    draft: u8,
}

impl Marks {
    const NUMBER_BITS: u32 = 24;

    /// Whether all operations of so many runs have a number.
    const fn has_numbers(runs: usize) -> bool {
        runs <= ((1 << Self::NUMBER_BITS) - 1) / RUN
    }

    /// Those of another draft, on a state of so many places.
    fn renew(mut self, places: usize) -> Self {
        if self.draft == u8::MAX {
            self.places.clear();
            self.draft = 0;
        }
        self.draft += 1;
        if self.places.len() < places {
            self.places.resize_with(places, AtomicU32::default);
        }
        self
    }

    const fn first(&self) -> u32 {
        (self.draft as u32) << Self::NUMBER_BITS
    }

    /// Of several operations on one key the last one stays, whoever enters them and when. What no key of the state is meant
    /// by is not entered: it is refused when it is prepared.
    #[inline]
    fn enter(&self, at: Locator, number: usize) {
        if let Some(place) = self.places.get(at.id()) {
            place.fetch_max(self.first() | (number as u32 + 1), Relaxed);
        }
    }

    /// Enters those operations of a part of a run that are about located keys, and gives the others.
    fn enter_piece(&self, delta: &Delta, piece: usize) -> Vec<usize> {
        let mut named = Vec::new();
        let mut operations = delta.numbered(piece / PIECES).skip(piece % PIECES * PIECE).take(PIECE);
        let mut wave = [None; WAVE];
        loop {
            let mut found = 0;
            for (number, operation) in operations.by_ref().take(WAVE) {
                match operation.target() {
                    Target::At(at) => {
                        self.places.get(at.id()).into_iter().for_each(prefetch_write);
                        wave[found] = Some((number, at));
                        found += 1;
                    }
                    Target::Key(_) => named.push(number),
                }
            }
            wave[..found].iter().flatten().for_each(|(number, at)| self.enter(*at, *number));
            if operations.len() == 0 {
                return named;
            }
        }
    }

    #[inline]
    fn find(&self, at: Locator) -> Option<usize> {
        let mark = self.places.get(at.id())?.load(Relaxed);
        mark.checked_sub(self.first() + 1).map(|number| number as usize)
    }
}

/// The last operation on each key that is named by its bytes: a table with open addressing.
#[derive(Debug)]
struct Names {
    keyed: Keyed,
    /// The upper half of a key's digest, then the number of an operation plus one; zero is free. At most three quarters are
    /// taken, of a power of two.
    slots: Vec<AtomicU64>,
}

impl Names {
    fn new(keyed: Keyed, names: usize) -> Self {
        let slots = if names == 0 { 0 } else { (names + names / 3 + 1).next_power_of_two() };
        Self { keyed, slots: (0..slots).map(|_| AtomicU64::new(0)).collect() }
    }

    fn operation(delta: &Delta, entry: u64) -> (usize, Operation<'_>) {
        let number = entry as u32 as usize - 1;
        (number, delta.at(number))
    }

    fn walk(&self, digest: u64) -> impl Iterator<Item = &AtomicU64> {
        let (mask, start) = (self.slots.len().saturating_sub(1), digest as usize);
        (0..self.slots.len()).map(move |step| &self.slots[(start + step) & mask])
    }

    /// As [`Marks::enter`].
    fn enter(&self, delta: &Delta, number: usize, key: &[u8]) {
        let digest = self.keyed.digest(key);
        let entry = digest >> 32 << 32 | (number as u64 + 1);
        for slot in self.walk(digest) {
            let mut seen = slot.load(Relaxed);
            if seen == 0 {
                match slot.compare_exchange(0, entry, Relaxed, Relaxed) {
                    Ok(_) => return,
                    Err(other) => seen = other,
                }
            }
            // What a slot is about never changes.
            if seen >> 32 == entry >> 32 && Self::operation(delta, seen).1.target() == Target::Key(key) {
                slot.fetch_max(entry, Relaxed);
                return;
            }
        }
        unreachable!("a quarter of the slots is free");
    }

    fn find(&self, delta: &Delta, key: &[u8]) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let digest = self.keyed.digest(key);
        let taken = self.walk(digest).map(|slot| slot.load(Relaxed)).take_while(|entry| *entry != 0);
        let alike = taken.filter(|entry| entry >> 32 == digest >> 32).map(|entry| Self::operation(delta, entry));
        alike.into_iter().find(|(_, operation)| operation.target() == Target::Key(key)).map(|(number, _)| number)
    }
}

impl Draft {
    fn new(base: u64, delta: Arc<Delta>, state: &Resident, home: Spare) -> Self {
        let marks = core::mem::take(&mut *home.0.lock()).renew(state.places());
        let pieces = delta.runs() * PIECES;
        let nanos = delta.len() / pieces.max(1) * NANOS;
        let named: Vec<Vec<usize>> = Par::UNTOLD.map_range(pieces, nanos, |piece| marks.enter_piece(&delta, piece));
        let names = Names::new(state.keyed(), named.iter().map(Vec::len).sum());
        Par::UNTOLD.map(&named, nanos, |named| {
            for number in named {
                if let Target::Key(key) = delta.at(*number).target() {
                    names.enter(&delta, *number, key);
                }
            }
        });
        Self { base, delta, marks, names, home }
    }

    /// The last operation about a key, `at` its locator if the tip has the key.
    #[inline]
    fn change(&self, at: Option<Locator>, key: &[u8]) -> Option<Operation<'_>> {
        let located = at.and_then(|at| self.marks.find(at));
        // Both are numbers of the same delta, and the later one counts.
        located.max(self.names.find(&self.delta, key)).map(|number| self.delta.at(number))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        *self.home.0.lock() = core::mem::take(&mut self.marks);
    }
}

/// The state after a [`Draft`]. Holds a lock, as a [`Reader`] does.
#[derive(Debug)]
pub struct DraftReader<'s> {
    tip: Reader<'s>,
    draft: &'s Draft,
}

impl Store {
    /// Whether [`Self::draft`] has one of such changes, and of one more.
    pub fn takes_draft(&self, delta: &Delta) -> bool {
        Marks::has_numbers(delta.runs() + 1) && matches!(self.core().state, State::Resident(_))
    }

    /// A block's changes on top of the tip, to be read before the block is prepared, of the very delta; `None` where the
    /// state is not resident, and for more than two million of them, or sixteen if they were put together in long runs. Uses
    /// the current rayon pool. What of the delta is refused when it is prepared may be seen here.
    pub fn draft(&self, delta: impl Into<Arc<Delta>>) -> Option<Draft> {
        let (core, delta) = (self.core(), delta.into());
        match &core.state {
            State::Resident(state) if Marks::has_numbers(delta.runs()) => {
                Some(Draft::new(core.tip_id(), delta, state, self.drafted.clone()))
            }
            _ => None,
        }
    }

    /// Reads the state after `draft`.
    ///
    /// # Errors
    /// [`Error::Gone`] if another block is the tip now than the one that it was made on, or another store's was.
    pub fn read_draft<'s>(&'s self, draft: &'s Draft) -> Result<DraftReader<'s>, Error> {
        let tip = self.read();
        if tip.core.tip_id() != draft.base || !Arc::ptr_eq(&self.drafted.0, &draft.home.0) {
            return Err(Error::Gone { block: BlockId(draft.base) });
        }
        Ok(DraftReader { tip, draft })
    }
}

impl<'s> DraftReader<'s> {
    /// The state below the draft.
    pub const fn tip(&self) -> &Reader<'s> {
        &self.tip
    }

    #[inline]
    fn state(&self) -> &Resident {
        match &self.tip.core.state {
            State::Resident(state) => state,
            State::Paged(_) => unreachable!("a store on disk has no drafts"),
        }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let state = self.state();
        let found = state.find(key);
        match self.draft.change(found.map(|id| state.locator(id)), key) {
            Some(operation) => operation.value(),
            None => found.map(|id| state.entry(id).1),
        }
    }

    /// A fast name for a key that exists below the draft and after it.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> Option<Locator> {
        let state = self.state();
        let at = state.locator(state.find(key)?);
        self.draft.change(Some(at), key).is_none_or(Operation::is_put).then_some(at)
    }

    /// The value of a located key; `None` if the key was deleted since.
    #[inline]
    pub fn value(&self, locator: Locator) -> Option<&[u8]> {
        let state = self.state();
        let (key, value) = state.entry(state.live(locator)?);
        match self.draft.change(Some(locator), key) {
            Some(operation) => operation.value(),
            None => Some(value),
        }
    }

    /// The values of many keys, their cache misses overlapped: one result per key, in order, value and, as [`Self::locate`]
    /// has it, locator.
    pub fn get_many<'k>(
        &self,
        keys: impl ExactSizeIterator<Item = &'k [u8]> + Clone,
        mut found: impl FnMut(Option<(&[u8], Option<Locator>)>),
    ) {
        let (state, draft) = (self.state(), self.draft);
        let likely = |id: u32| draft.marks.places.get(id as usize).into_iter().for_each(prefetch);
        let mut names = keys.clone();
        state.find_many_and(keys.map(Lookup::Key), likely, |id| {
            let Some(key) = names.next() else { return };
            let at = id.map(|id| state.locator(id));
            found(match (draft.change(at, key), id) {
                (Some(operation), _) => operation.value().map(|value| (value, at)),
                (None, Some(id)) => Some((state.entry(id).1, at)),
                (None, None) => None,
            });
        });
    }
}
