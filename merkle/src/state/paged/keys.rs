//! The position of every key of a paged state: ten bytes per key, in key order.

use std::{collections::BTreeMap, sync::Arc};

/// Maximum number of keys in a page before it is split.
const PAGE: usize = 512;

/// Range of positions that can be told apart: far more than lie between the oldest state's floor and the end.
const WINDOW: u64 = 1 << 40;

/// Five bytes of a key's hash and the low five bytes of its position.
pub(crate) type Slot = [u8; 10];

/// First five bytes of a key's hash. Keys are ordered by it; keys that share it are in no order.
pub(crate) type Frag = u64;

/// Bits of a fragment.
const FRAG_BITS: u32 = 40;

/// Fragment of a prefix.
#[inline]
pub(crate) const fn frag(prefix: u64) -> Frag {
    prefix >> (64 - FRAG_BITS)
}

/// Position of every key and sentinel.
///
/// Whole hashes are not kept, so a result may be several keys: the caller reads their entries. At 2^28 keys that is one
/// key in four thousand. A copy shares the pages until they change: a checkpoint is written from a copy.
///
/// # Invariants
/// A page holds the slots from its bound up to the next bound, at least one unless it is the first page. Slots that
/// share a fragment are on one page. The first bound is zero.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pages: BTreeMap<Frag, Arc<Vec<Slot>>>,
    len: u64,
    /// Exclusive bound of positions.
    next_sn: u64,
}

#[inline]
const fn frag_of(slot: &Slot) -> Frag {
    let [a, b, c, d, e, ..] = *slot;
    u64::from_be_bytes([0, 0, 0, a, b, c, d, e])
}

#[inline]
const fn low(word: u64) -> [u8; 5] {
    let [_, _, _, a, b, c, d, e] = word.to_be_bytes();
    [a, b, c, d, e]
}

#[inline]
const fn slot(frag: Frag, sn: u64) -> Slot {
    let ([a, b, c, d, e], [f, g, h, i, j]) = (low(frag), low(sn));
    [a, b, c, d, e, f, g, h, i, j]
}

/// Slot of a key, given the prefix of its hash and its position.
pub(crate) const fn slot_of(prefix: u64, sn: u64) -> Slot {
    slot(frag(prefix), sn)
}

/// First slot of a page that is not below a fragment, searched from a guess on: one or two lines are read of a page
/// outside the caches.
#[inline]
fn first_from(page: &[Slot], guess: usize, frag: Frag) -> usize {
    let is_below = |at: usize| frag_of(&page[at]) < frag;
    let (mut from, mut to) = (0, page.len());
    let (mut at, mut step) = (guess.min(to), 8);
    if at < to && is_below(at) {
        from = at + 1;
        while from + step < to && is_below(from + step) {
            from += step + 1;
            step *= 2;
        }
        to = to.min(from + step);
    } else {
        to = at;
        while to > 0 {
            at = to.saturating_sub(step);
            if is_below(at) {
                from = at + 1;
                break;
            }
            to = at;
            step *= 2;
        }
    }
    from + page[from..to].partition_point(|slot| frag_of(slot) < frag)
}

/// A table that is built from slots in the order of their fragments, so that they need not lie in memory twice.
#[derive(Debug, Default)]
pub(crate) struct SortedKeys {
    pages: BTreeMap<Frag, Arc<Vec<Slot>>>,
    len: u64,
    /// Bound of the last page, and its slots so far.
    bound: Frag,
    page: Vec<Slot>,
}

impl SortedKeys {
    /// Adds the next slot; false if it is out of order.
    #[must_use]
    pub(crate) fn push(&mut self, slot: Slot) -> bool {
        if let Some(last) = self.page.last().map(frag_of) {
            if frag_of(&slot) < last {
                return false;
            }
            if self.page.len() >= PAGE * 3 / 4 && frag_of(&slot) != last {
                self.pages.insert(self.bound, Arc::new(self.page.as_slice().to_vec()));
                self.page.clear();
                self.bound = frag_of(&slot);
            }
        }
        self.page.push(slot);
        self.len += 1;
        true
    }

    /// The table, given the exclusive bound of positions.
    pub(crate) fn finish(mut self, next_sn: u64) -> Keys {
        self.pages.insert(self.bound, Arc::new(self.page));
        Keys { pages: self.pages, len: self.len, next_sn }
    }
}

impl Keys {
    pub(crate) fn new() -> Self {
        Self { pages: BTreeMap::from([(0, Arc::default())]), len: 0, next_sn: 0 }
    }

    /// Builds the table from slots in the order of their fragments; `None` if they are in another.
    pub(crate) fn from_sorted(slots: impl IntoIterator<Item = Slot>, next_sn: u64) -> Option<Self> {
        let mut keys = SortedKeys::default();
        slots.into_iter().all(|slot| keys.push(slot)).then(|| keys.finish(next_sn))
    }

    /// All slots, in the order of their fragments.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.pages.values().flat_map(|page| page.iter())
    }

    /// Bytes of the pages, and an estimate for the tree above them.
    pub(crate) fn memory(&self) -> usize {
        let above = size_of::<(Frag, Arc<Vec<Slot>>)>() * 3 / 2 + size_of::<Vec<Slot>>() + 16;
        self.pages.values().map(|page| page.capacity() * size_of::<Slot>() + above).sum()
    }

    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Sets the exclusive bound of positions.
    pub(crate) const fn advance(&mut self, next_sn: u64) {
        self.next_sn = next_sn;
    }

    /// Exclusive bound of positions.
    pub(crate) const fn next_sn(&self) -> u64 {
        self.next_sn
    }

    #[inline]
    const fn sn(&self, slot: &Slot) -> u64 {
        let [.., a, b, c, d, e] = *slot;
        self.near(u64::from_be_bytes([0, 0, 0, a, b, c, d, e]))
    }

    /// Last position that ends in these 40 bits.
    #[inline]
    const fn near(&self, low: u64) -> u64 {
        let sn = (self.next_sn & !(WINDOW - 1)) | low;
        if sn >= self.next_sn { sn.wrapping_sub(WINDOW) } else { sn }
    }

    /// Likely index of a fragment in a page: hashes are spread evenly.
    #[inline]
    const fn guess(len: u64, bound: Frag, frag: Frag) -> usize {
        (((frag - bound) as u128 * len as u128) >> FRAG_BITS) as usize
    }

    /// Positions of the keys that share a fragment.
    #[inline]
    pub(crate) fn find(&self, frag: Frag) -> impl Iterator<Item = u64> {
        let (bound, page) = self.pages.range(..=frag).next_back().map_or((frag, &[][..]), |(at, page)| (*at, page));
        let at = first_from(page, Self::guess(self.len, bound, frag), frag);
        page[at..].iter().take_while(move |slot| frag_of(slot) == frag).map(|slot| self.sn(slot))
    }

    /// Fragments and positions from a fragment on downwards, itself included.
    pub(crate) fn down_from(&self, frag: Frag) -> impl Iterator<Item = (Frag, u64)> {
        let mut pages = self.pages.range(..=frag).rev();
        let first = pages
            .next()
            .map_or(&[][..], |(bound, page)| &page[..first_from(page, Self::guess(self.len, *bound, frag), frag + 1)]);
        let slots = first.iter().rev().chain(pages.flat_map(|(_, page)| page.iter().rev()));
        slots.map(|slot| (frag_of(slot), self.sn(slot)))
    }

    /// Fragments and positions from a fragment on upwards, itself included.
    pub(crate) fn up_from(&self, frag: Frag) -> impl Iterator<Item = (Frag, u64)> {
        let bound = self.pages.range(..=frag).next_back().map_or(0, |(bound, _)| *bound);
        let mut pages = self.pages.range(bound..).map(|(_, page)| page);
        let first =
            pages.next().map_or(&[][..], |page| &page[first_from(page, Self::guess(self.len, bound, frag), frag)..]);
        let slots = first.iter().chain(pages.flat_map(|page| page.iter()));
        slots.map(|slot| (frag_of(slot), self.sn(slot)))
    }

    /// Positions of all keys, ascending. Takes a bit per position that lies between the first and the last, or eight bytes per key if
    /// that is less.
    pub(crate) fn positions(&self) -> Box<dyn Iterator<Item = u64>> {
        let sns = || self.slots().map(|slot| self.sn(slot));
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

    /// Page of a fragment, for a change, and the index of a position of that fragment.
    fn place(&mut self, frag: Frag, sn: u64) -> Option<(Frag, &mut Vec<Slot>, usize)> {
        let (wanted, len) = (slot(frag, sn), self.len);
        let (bound, page) = self.pages.range_mut(..=frag).next_back()?;
        let first = first_from(page, Self::guess(len, *bound, frag), frag);
        let same = page[first..].iter().take_while(|slot| frag_of(slot) == frag);
        let at = first + same.take_while(|slot| **slot != wanted).count();
        (page.get(at) == Some(&wanted)).then(|| (*bound, Arc::make_mut(page), at))
    }

    /// Sets the position of a key; false if its position was not `before`.
    #[must_use]
    pub(crate) fn set(&mut self, frag: Frag, before: u64, after: u64) -> bool {
        let Some((_, page, at)) = self.place(frag, before) else { return false };
        page[at] = slot(frag, after);
        true
    }

    /// Removes a key; false if it does not have the position.
    #[must_use]
    pub(crate) fn remove(&mut self, frag: Frag, sn: u64) -> bool {
        let Some((bound, page, at)) = self.place(frag, sn) else { return false };
        page.remove(at);
        if page.is_empty() && bound != 0 {
            self.pages.remove(&bound);
        }
        self.len -= 1;
        true
    }

    /// Adds a key.
    pub(crate) fn insert(&mut self, frag: Frag, sn: u64) {
        let (bound, page) = self.pages.range_mut(..=frag).next_back().expect("the first bound is zero");
        let (guess, page) = (Self::guess(self.len, *bound, frag), Arc::make_mut(page));
        if page.len() == page.capacity() {
            // In small steps: reserved memory counts per key.
            page.reserve_exact(page.len() / 32 + 4);
        }
        page.insert(first_from(page, guess, frag), slot(frag, sn));
        self.len += 1;
        if page.len() > PAGE {
            let middle = frag_of(&page[page.len() / 2]);
            // Slots that share a fragment stay together, however many an adversary found.
            let cut = page.partition_point(|slot| frag_of(slot) < middle);
            if cut > 0 {
                let upper = page.split_off(cut);
                page.shrink_to_fit();
                self.pages.insert(middle, Arc::new(upper.as_slice().to_vec()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn slots_out_of_order_are_refused() {
        let slots = [slot(4, 1), slot(4, 0), slot(5, 3)];
        assert_eq!(Keys::from_sorted(slots, 9).map(|keys| keys.len()), Some(3));
        assert!(Keys::from_sorted([slots[2], slots[0]], 9).is_none());
    }

    #[test]
    fn equals_a_sorted_set() {
        for seed in 0..6 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let (mut keys, mut model) = (Keys::new(), BTreeSet::<(Frag, u64)>::new());
            // The window of positions is anywhere, also across the end of what five bytes count.
            let base = [0, WINDOW - 3000, 5 * WINDOW + 17][seed as usize % 3];
            let few = seed % 2 == 0;
            let mut next_sn = base;
            for _ in 0..12_000 {
                next_sn += 1;
                keys.advance(next_sn);
                let wanted = frag(if few { rng.random_range(0..900) << 24 } else { rng.random() });
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
            let rebuilt = Keys::from_sorted(keys.slots().copied(), next_sn).expect("they are in order");
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
                    let wanted = frag(if few { rng.random_range(0..900) << 24 } else { rng.random() });
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
