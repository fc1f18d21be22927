//! The position of every key of a paged state: ten bytes per key, in key order.

use std::{iter::repeat_n, sync::Arc};

use super::{
    page::{FRAG_BITS, Frag, GROUPS, PAGE, Page, REST_BITS, Slot, count_below, frag_of, group, rest, slot},
    recent::{Ahead, Recent},
};
use crate::types::Memory;
use phalanx_memory::{prefetch, prefetch_slice};

/// Keys of a page that is built at once.
const BUILT: usize = PAGE * 3 / 4;

/// Steps by which lookups are prefetched: first the page's bound, then its slots.
pub(super) const LOOKAHEAD: [usize; 2] = [16, 8];

/// Slots on both sides of the likely one that are prefetched.
const SPREAD: usize = 14;

/// Range of positions that can be told apart: far more than lie between the oldest state's floor and the end.
const WINDOW: u64 = 1 << 40;

// Positions of all keys, and those among them that later blocks have deactivated, lie within the window.
const _: () = assert!(Memory::Cached { bytes: 0 }.max_keys() <= WINDOW / 4);

/// Position of every key and sentinel.
///
/// Whole hashes are not kept, so a result may be several keys: the caller reads their entries. At 2^28 keys that is one
/// key in four thousand. A copy shares the pages until they change: a checkpoint is written from a copy.
///
/// Hashes are spread evenly, so a fragment's first bits name the group of its page and the others say about where the page
/// is in the group, and where the slot is in the page: at 2^28 keys a lookup reads one to three lines of each. Pages split,
/// so a lookup among hashes that an adversary chose costs a binary search.
///
/// # Invariants
/// A group has at least one page; the bound of its first page is zero. A page holds the slots from its bound up to the next
/// bound, at least one unless it is the first. Slots that share a fragment are on one page. A slot whose fragment is among the
/// recent ones may have another position.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    groups: Vec<Arc<[Page]>>,
    recent: Recent,
    len: u64,
    /// Exclusive bound of positions.
    next_sn: u64,
}

/// Place of a fragment in the table.
#[derive(Clone, Copy, Debug)]
struct Place {
    group: usize,
    page: usize,
    /// First slot of the page that is not below the fragment.
    slot: usize,
}

/// A table that is built from slots in the order of their fragments, so that they need not lie in memory twice.
#[derive(Debug, Default)]
pub(crate) struct SortedKeys {
    groups: Vec<Vec<Page>>,
    len: u64,
    /// Slots of the last page so far.
    page: Vec<Slot>,
}

impl SortedKeys {
    /// Adds the next slot; false if it is out of order.
    #[must_use]
    pub(crate) fn push(&mut self, slot: Slot) -> bool {
        if let Some(last) = self.page.last().map(frag_of) {
            let frag = frag_of(&slot);
            if frag < last {
                return false;
            }
            if group(frag) != group(last) || self.page.len() >= BUILT && frag != last {
                self.end_page();
            }
        }
        self.page.push(slot);
        self.len += 1;
        true
    }

    fn end_page(&mut self) {
        let Some(first) = self.page.first().map(frag_of) else { return };
        self.groups.resize_with(group(first) + 1, Vec::new);
        let pages = &mut self.groups[group(first)];
        let bound = if pages.is_empty() { 0 } else { rest(first) };
        pages.push(Page::new(bound, &self.page));
        self.page.clear();
    }

    /// The table, given the exclusive bound of positions.
    pub(crate) fn finish(mut self, next_sn: u64) -> Keys {
        self.end_page();
        let mut keys = Keys { len: self.len, next_sn, ..Keys::new() };
        let built = keys.groups.iter_mut().zip(self.groups).filter(|(_, pages)| !pages.is_empty());
        built.for_each(|(group, pages)| *group = pages.into());
        keys
    }
}

impl Keys {
    pub(crate) fn new() -> Self {
        // All groups share one empty page until they change.
        let empty: Arc<[Page]> = [Page::default()].into();
        Self { groups: repeat_n(empty, GROUPS).collect(), recent: Recent::new(), len: 0, next_sn: 0 }
    }

    /// Builds the table from slots in the order of their fragments; `None` if they are in another.
    pub(crate) fn from_sorted(slots: impl IntoIterator<Item = Slot>, next_sn: u64) -> Option<Self> {
        let mut keys = SortedKeys::default();
        slots.into_iter().all(|slot| keys.push(slot)).then(|| keys.finish(next_sn))
    }

    /// All slots, in the order of their fragments.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.cells().map(|cell| slot(frag_of(cell), self.sn(cell)))
    }

    fn cells(&self) -> impl Iterator<Item = &Slot> {
        self.groups.iter().flat_map(|pages| pages.iter().flat_map(Page::slots))
    }

    /// Bytes of the pages and of what leads to them.
    pub(crate) fn memory(&self) -> usize {
        const COUNTS: usize = 2 * size_of::<usize>();
        let page = |page: &Page| page.cells.len() * size_of::<Slot>() + COUNTS;
        let group = |pages: &Arc<[Page]>| size_of_val(&**pages) + COUNTS + pages.iter().map(page).sum::<usize>();
        let groups = self.groups.capacity() * size_of::<Arc<[Page]>>() + self.groups.iter().map(group).sum::<usize>();
        groups + self.recent.memory()
    }

    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Pretends that there are this many keys and sentinels.
    #[cfg(test)]
    pub(crate) const fn pretend(&mut self, len: u64) {
        self.len = len;
    }

    /// Sets the exclusive bound of positions.
    pub(crate) const fn advance(&mut self, next_sn: u64) {
        self.next_sn = next_sn;
    }

    /// Exclusive bound of positions.
    pub(crate) const fn next_sn(&self) -> u64 {
        self.next_sn
    }

    /// Position of a slot's key.
    #[inline]
    fn sn(&self, slot: &Slot) -> u64 {
        self.recent.get(frag_of(slot)).unwrap_or_else(|| self.sn_in(slot))
    }

    /// Position in a slot.
    #[inline]
    const fn sn_in(&self, slot: &Slot) -> u64 {
        let [.., a, b, c, d, e] = *slot;
        self.near(u64::from_be_bytes([0, 0, 0, a, b, c, d, e]))
    }

    /// Last position that ends in these 40 bits.
    #[inline]
    const fn near(&self, low: u64) -> u64 {
        let sn = (self.next_sn & !(WINDOW - 1)) | low;
        if sn >= self.next_sn { sn.wrapping_sub(WINDOW) } else { sn }
    }

    /// Likely index of the page of a fragment in its group.
    #[inline]
    const fn likely_page(pages: &[Page], frag: Frag) -> usize {
        ((rest(frag) as u64 * pages.len() as u64) >> REST_BITS) as usize
    }

    /// Index of the page of a fragment in its group.
    #[inline]
    fn page(pages: &[Page], frag: Frag) -> usize {
        let guess = Self::likely_page(pages, frag);
        count_below(pages.len(), guess + 1, 1, |at| pages[at].bound <= rest(frag)) - 1
    }

    /// Likely index of a fragment in its page.
    #[inline]
    const fn guess(&self, page: &Page, frag: Frag) -> usize {
        (((rest(frag) - page.bound) as u128 * self.len as u128) >> FRAG_BITS) as usize
    }

    /// Prefetches for two lookups [`LOOKAHEAD`] steps further: the bound of the far one's page, and the likely slots of the near
    /// one. A recent position needs neither.
    #[inline]
    pub(super) fn prefetch(&self, [far, near]: [Option<Frag>; 2]) {
        if let Some(frag) = far.filter(|frag| self.recent.get(*frag).is_none()) {
            let pages = &self.groups[group(frag)];
            prefetch(&pages[Self::likely_page(pages, frag)]);
        }
        if let Some(frag) = near.filter(|frag| self.recent.get(*frag).is_none()) {
            let pages = &self.groups[group(frag)];
            let page = &pages[Self::page(pages, frag)];
            let at = self.guess(page, frag);
            let likely = at.saturating_sub(SPREAD)..at + SPREAD;
            prefetch_slice(&page.cells[likely.start.min(page.cells.len())..likely.end.min(page.cells.len())]);
        }
    }

    /// Place of the first slot that is not below a fragment.
    #[inline]
    fn place(&self, frag: Frag) -> Place {
        let pages = &self.groups[group(frag)];
        let page = Self::page(pages, frag);
        let slots = pages[page].slots();
        let slot = count_below(slots.len(), self.guess(&pages[page], frag), 8, |at| frag_of(&slots[at]) < frag);
        Place { group: group(frag), page, slot }
    }

    /// Positions of the keys that share a fragment.
    #[inline]
    pub(crate) fn find(&self, frag: Frag) -> impl Iterator<Item = u64> {
        let recent = self.recent.get(frag);
        let slots = if recent.is_some() { &[] } else { self.slots_from(frag) };
        let slots = slots.iter().take_while(move |slot| frag_of(slot) == frag).map(|slot| self.sn_in(slot));
        recent.into_iter().chain(slots)
    }

    /// Slots of a page from the first that is not below a fragment.
    #[inline]
    fn slots_from(&self, frag: Frag) -> &[Slot] {
        let place = self.place(frag);
        &self.groups[place.group][place.page].slots()[place.slot..]
    }

    /// Fragments and positions from a fragment on downwards, itself included.
    pub(crate) fn down_from(&self, frag: Frag) -> impl Iterator<Item = (Frag, u64)> {
        let place = self.place(frag);
        let pages = &self.groups[place.group];
        let same = pages[place.page].slots()[place.slot..].iter().take_while(|slot| frag_of(slot) == frag).count();
        let first = &pages[place.page].slots()[..place.slot + same];
        let groups = self.groups[..place.group].iter().rev().flat_map(|pages| pages.iter().rev());
        let pages = pages[..place.page].iter().rev().chain(groups);
        let slots = first.iter().rev().chain(pages.flat_map(|page| page.slots().iter().rev()));
        slots.map(|slot| (frag_of(slot), self.sn(slot)))
    }

    /// Fragments and positions from a fragment on upwards, itself included.
    pub(crate) fn up_from(&self, frag: Frag) -> impl Iterator<Item = (Frag, u64)> {
        let place = self.place(frag);
        let pages = &self.groups[place.group];
        let first = &pages[place.page].slots()[place.slot..];
        let groups = self.groups[place.group + 1..].iter().flat_map(|pages| pages.iter());
        let pages = pages[place.page + 1..].iter().chain(groups);
        let slots = first.iter().chain(pages.flat_map(|page| page.slots().iter()));
        slots.map(|slot| (frag_of(slot), self.sn(slot)))
    }

    /// Positions of all keys, ascending. Takes a bit per position that lies between the first and the last, or eight bytes per key if
    /// that is less.
    pub(crate) fn positions(&self) -> Box<dyn Iterator<Item = u64>> {
        let sns = || self.cells().map(|cell| self.sn(cell));
        let (Some(first), Some(last)) = (sns().min(), sns().max()) else { return Box::new(std::iter::empty()) };
        if (last - first) / 64 > self.len {
            let mut sns: Vec<u64> = sns().collect();
            sns.sort_unstable();
            return Box::new(sns.into_iter());
        }
        let mut words = vec![0u64; ((last - first) / 64 + 1) as usize];
        sns().for_each(|sn| words[((sn - first) / 64) as usize] |= 1 << ((sn - first) % 64));
        let bits = |(first, mut word): (u64, u64)| {
            std::iter::from_fn(move || {
                let bit = u64::from(word.trailing_zeros());
                // Clears the lowest bit.
                let rest = word.checked_sub(1)?;
                word &= rest;
                Some(first + bit)
            })
        };
        Box::new((0..).zip(words).map(move |(at, word)| (first + 64 * at, word)).flat_map(bits))
    }

    /// Place of a key, given the position that its page has.
    fn find_place(&self, frag: Frag, sn: u64) -> Option<Place> {
        // A damaged log may name a position that only ends in the same bits.
        if self.near(sn % WINDOW) != sn {
            return None;
        }
        let (wanted, place) = (slot(frag, sn), self.place(frag));
        let slots = &self.groups[place.group][place.page].slots()[place.slot..];
        let same = slots.iter().take_while(|slot| frag_of(slot) == frag);
        let at = place.slot + same.take_while(|slot| **slot != wanted).count();
        (slots.get(at - place.slot) == Some(&wanted)).then_some(Place { slot: at, ..place })
    }

    fn set_at(&mut self, place: Place, slot: Slot) {
        Arc::make_mut(&mut self.groups[place.group])[place.page].set(place.slot, slot);
    }

    /// Brings a position to its page.
    fn write_back(&mut self, (frag, sn): Ahead) {
        // No other slot has the fragment.
        self.set_at(self.place(frag), slot(frag, sn));
    }

    /// Returns true if no other key shares a fragment, given the place of a slot that has it.
    fn is_alone(&self, place: Place, frag: Frag) -> bool {
        let slots = self.groups[place.group][place.page].slots();
        let (before, after) = (place.slot.checked_sub(1), place.slot + 1);
        let shares = |slot: &Slot| frag_of(slot) == frag;
        !before.and_then(|at| slots.get(at)).is_some_and(shares) && !slots.get(after).is_some_and(shares)
    }

    /// Sets the position of a key; false if its position was not `before`.
    #[must_use]
    pub(crate) fn set(&mut self, frag: Frag, before: u64, after: u64) -> bool {
        if let Some(fits) = self.recent.set(frag, before, after) {
            return fits;
        }
        let Some(place) = self.find_place(frag, before) else { return false };
        self.set_at(place, slot(frag, after));
        if self.is_alone(place, frag)
            && let Some(ahead) = self.recent.note(frag, after)
        {
            self.write_back(ahead);
        }
        true
    }

    /// Takes a key out of the recent ones: another is about to share its fragment, or it is removed.
    fn forget(&mut self, frag: Frag) {
        if let Some(ahead) = self.recent.forget(frag) {
            self.write_back(ahead);
        }
    }

    /// Removes a key; false if it does not have the position.
    #[must_use]
    pub(crate) fn remove(&mut self, frag: Frag, sn: u64) -> bool {
        self.forget(frag);
        let Some(place) = self.find_place(frag, sn) else { return false };
        let pages = &mut self.groups[place.group];
        let page = &mut Arc::make_mut(pages)[place.page];
        page.remove(place.slot);
        if page.len == 0 && place.page > 0 {
            let (before, after) = (&pages[..place.page], &pages[place.page + 1..]);
            *pages = [before, after].concat().into();
        }
        self.len -= 1;
        true
    }

    /// Adds a key.
    pub(crate) fn insert(&mut self, frag: Frag, sn: u64) {
        self.forget(frag);
        let place = self.place(frag);
        let pages = &mut self.groups[place.group];
        let page = &mut Arc::make_mut(pages)[place.page];
        page.insert(place.slot, slot(frag, sn));
        if page.len as usize > PAGE
            && let Some(upper) = page.split()
        {
            // Once in hundreds of insertions.
            let (before, after) = pages.split_at(place.page + 1);
            *pages = [before, &[upper], after].concat().into();
        }
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{super::page::frag, *};
    use rand::{Rng as _, SeedableRng as _};
    use std::collections::BTreeSet;

    #[test]
    fn positions_far_apart_are_listed() {
        let mut keys = Keys::new();
        keys.advance(1 << 39);
        let sns = [3, 70, 1 << 20, (1 << 39) - 1];
        sns.iter().rev().for_each(|sn| keys.insert(*sn % 7, *sn));
        assert_eq!(keys.positions().collect::<Vec<_>>(), sns);
        assert_eq!(Keys::new().positions().count(), 0);
    }

    /// A forged log names such positions.
    #[test]
    fn a_position_that_ends_in_the_same_bits_is_another() {
        for times_set in 0..3 {
            let mut keys = Keys::new();
            keys.advance(9);
            keys.insert(5, 1);
            (0..times_set).for_each(|at| assert!(keys.set(5, 1 + at, 2 + at)));
            let sn = 1 + times_set;
            assert!(!keys.set(5, sn + WINDOW, 8) && !keys.remove(5, sn + WINDOW), "after {times_set} changes");
            assert!(keys.find(5).eq([sn]) && keys.remove(5, sn), "after {times_set} changes");
        }
    }

    /// The pages then have positions that were taken back.
    #[test]
    fn recent_positions_are_taken_back() {
        let mut keys = Keys::new();
        keys.advance(7);
        keys.insert(5, 1);
        assert!(keys.set(5, 1, 5) && keys.set(5, 5, 6));
        assert!(keys.set(5, 6, 5) && keys.set(5, 5, 1));
        keys.advance(2);
        assert!(keys.find(5).eq([1]) && keys.positions().eq([1]));
        // Takes the cell, of which there are 64 here.
        keys.insert(5 + 64, 0);
        assert!(keys.set(5 + 64, 0, 0));
        assert!(keys.find(5).eq([1]) && keys.positions().eq([0, 1]));
    }

    #[test]
    fn slots_out_of_order_are_refused() {
        let slots = [slot(4, 1), slot(4, 0), slot(5, 3)];
        assert_eq!(Keys::from_sorted(slots, 9).map(|keys| keys.len()), Some(3));
        assert!(Keys::from_sorted([slots[2], slots[0]], 9).is_none());
    }

    #[test]
    fn keys_that_share_a_fragment_stay_on_one_page() {
        let (mut keys, shared) = (Keys::new(), (3 << REST_BITS) + 5);
        keys.advance(4000);
        keys.insert(shared - 1, 0);
        (1..2000).for_each(|sn| keys.insert(shared, sn));
        keys.insert(shared + 1, 2000);
        let rebuilt = Keys::from_sorted(keys.slots(), 4000).expect("they are in order");
        for mut keys in [keys, rebuilt] {
            let found: BTreeSet<u64> = keys.find(shared).collect();
            assert_eq!(found, (1..2000).collect());
            assert!((1..2000).all(|sn| keys.remove(shared, sn)));
            assert_eq!(keys.up_from(0).collect::<Vec<_>>(), [(shared - 1, 0), (shared + 1, 2000)]);
        }
    }

    /// Few keys change most of the time, some share a fragment, and there are more keys than cells of recent positions.
    #[test]
    fn positions_that_change_often_are_current() {
        for seed in 0..6 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let (mut keys, mut model, mut copies) = (Keys::new(), BTreeSet::<(Frag, u64)>::new(), Vec::new());
            let frags: Vec<Frag> = (0..300).map(|_| frag(rng.random())).collect();
            for sn in 1..20_000 {
                keys.advance(sn + 1);
                let hot = rng.random_bool(0.8);
                let frag = frags[if hot { rng.random_range(0..20) } else { rng.random_range(0..frags.len()) }];
                let has: Vec<u64> = model.range((frag, 0)..=(frag, u64::MAX)).map(|(_, sn)| *sn).collect();
                match has.first() {
                    Some(before) if rng.random_bool(0.02) => {
                        assert!(!keys.remove(frag, sn) && keys.remove(frag, *before), "seed {seed}");
                        model.remove(&(frag, *before));
                    }
                    Some(before) if has.len() > 3 || rng.random_bool(0.98) => {
                        assert!(!keys.set(frag, sn, sn) && keys.set(frag, *before, sn), "seed {seed}");
                        model.remove(&(frag, *before));
                        model.insert((frag, sn));
                    }
                    _ => {
                        keys.insert(frag, sn);
                        model.insert((frag, sn));
                    }
                }
                let found: BTreeSet<u64> = keys.find(frag).collect();
                assert_eq!(
                    found,
                    model.range((frag, 0)..=(frag, u64::MAX)).map(|(_, sn)| *sn).collect(),
                    "seed {seed}"
                );
                if sn % 997 == 0 {
                    copies.push((keys.clone(), model.clone()));
                }
            }
            copies.push((keys, model));
            for (keys, model) in copies {
                let stored = Keys::from_sorted(keys.slots(), keys.next_sn()).expect("they are in order");
                for keys in [keys, stored] {
                    assert_eq!(keys.up_from(0).collect::<BTreeSet<_>>(), model, "seed {seed}");
                    assert_eq!(keys.down_from(Frag::MAX >> 24).collect::<BTreeSet<_>>(), model, "seed {seed}");
                    let sns: BTreeSet<u64> = keys.positions().collect();
                    assert_eq!(sns, model.iter().map(|(_, sn)| *sn).collect(), "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn equals_a_sorted_set() {
        for seed in 0..9 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let mut copies = Vec::new();
            let (mut keys, mut model) = (Keys::new(), BTreeSet::<(Frag, u64)>::new());
            // The window of positions is anywhere, also across the end of what five bytes count.
            let base = [0, WINDOW - 3000, 5 * WINDOW + 17][seed as usize % 3];
            let few = seed % 2 == 0;
            // Many pages on both sides of the borders of groups, and at both ends.
            let dense = |rng: &mut rand_chacha::ChaCha8Rng| {
                let border = [0u64, 1 << REST_BITS, 5 << REST_BITS, 1 << FRAG_BITS][rng.random_range(0..4)];
                (border + rng.random_range(0..6000)).saturating_sub(3000).min((1 << FRAG_BITS) - 1)
            };
            let draw = |rng: &mut rand_chacha::ChaCha8Rng| match seed {
                6.. => dense(rng),
                _ if few => frag(rng.random_range(0..900) << 24),
                _ => frag(rng.random()),
            };
            let mut next_sn = base;
            for step in 0..12_000 {
                if step % 1500 == 0 {
                    copies.push((keys.clone(), model.clone()));
                }
                next_sn += 1;
                keys.advance(next_sn);
                let wanted = draw(&mut rng);
                let near = model.range((wanted, 0)..).next().copied();
                match near.filter(|_| rng.random_bool(0.4)) {
                    Some((frag, sn)) if rng.random_bool(0.5) => {
                        assert!(keys.remove(frag, sn) && !keys.remove(frag, sn), "seed {seed}");
                        model.remove(&(frag, sn));
                    }
                    Some((frag, sn)) => {
                        assert!(keys.set(frag, sn, next_sn - 1) && model.remove(&(frag, sn)), "seed {seed}");
                        model.insert((frag, next_sn - 1));
                    }
                    None => {
                        keys.insert(wanted, next_sn - 1);
                        model.insert((wanted, next_sn - 1));
                    }
                }
                assert_eq!(keys.len(), model.len() as u64);
            }
            // A copy shares pages, and keeps what it had.
            for (copy, had) in copies {
                assert_eq!(copy.up_from(0).collect::<BTreeSet<_>>(), had, "seed {seed}");
            }
            let rebuilt = Keys::from_sorted(keys.slots(), next_sn).expect("they are in order");
            for keys in [&keys, &rebuilt] {
                assert_eq!(keys.len(), model.len() as u64);
                assert_eq!(keys.up_from(0).collect::<BTreeSet<_>>(), model, "seed {seed}");
                let positions: Vec<u64> = keys.positions().collect();
                assert!(positions.is_sorted(), "seed {seed}");
                assert_eq!(
                    positions,
                    model.iter().map(|(_, sn)| *sn).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
                );
                for _ in 0..300 {
                    let wanted = draw(&mut rng);
                    keys.prefetch([Some(draw(&mut rng)), Some(wanted)]);
                    let up: BTreeSet<_> = keys.up_from(wanted).collect();
                    assert_eq!(up, model.range((wanted, 0)..).copied().collect(), "seed {seed}");
                    let down: BTreeSet<_> = keys.down_from(wanted).collect();
                    assert_eq!(down, model.range(..=(wanted, u64::MAX)).copied().collect(), "seed {seed}");
                    assert!(keys.down_from(wanted).map(|(frag, _)| frag).is_sorted_by(|a, b| a >= b));
                    let same: BTreeSet<_> = keys.find(wanted).map(|sn| (wanted, sn)).collect();
                    assert_eq!(same, model.range((wanted, 0)..=(wanted, u64::MAX)).copied().collect(), "seed {seed}");
                }
            }
        }
    }
}
