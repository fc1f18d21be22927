//! Lazy priority queue of senders: stale entries stay in the heap until they reach its top.

use std::collections::BinaryHeap;

/// Number of a sender in its pool. Numbers are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SenderId(pub(super) u32);

impl SenderId {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Sort key of a lane; the highest is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    worth: i128,
    turn: u64,
}

impl Key {
    /// The highest worth is first; at equal worth the older.
    pub(super) const fn best(worth: i128, rank: u64) -> Self {
        Self { worth, turn: !rank }
    }

    /// The lowest worth is first; at equal worth the younger.
    pub(super) const fn worst(worth: i128, rank: u64) -> Self {
        Self { worth: -worth, turn: rank }
    }
}

/// An entry of the heap. It is valid while its sender's listing has the same key and ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    key: Key,
    sender: SenderId,
    ticket: u32,
}

/// Current key of a sender. The ticket tells it from stale entries with the same key.
#[derive(Clone, Copy, Debug, Default)]
struct Listing {
    key: Option<Key>,
    ticket: u32,
}

/// Senders by key, at most one key each.
///
/// Stale entries are dropped when they reach the top, or when they are more than half of the heap. Changing a key
/// takes O(1) if the new key is not among the first, and O(log n) at most; finding the first takes O(log n)
/// amortised.
#[derive(Debug, Default)]
pub(super) struct Lane {
    heap: BinaryHeap<Entry>,
    /// Listings by sender.
    listings: Vec<Listing>,
    /// Number of valid entries.
    live: usize,
}

/// Number of stale entries that are tolerated on top of the valid ones.
const LITTER: usize = 64;

impl Lane {
    /// Sets or removes a sender's key.
    pub(super) fn set(&mut self, sender: SenderId, key: Option<Key>) {
        if self.listings.len() <= sender.index() {
            if key.is_none() {
                return;
            }
            self.listings.resize(sender.index() + 1, Listing::default());
        }
        let listing = &mut self.listings[sender.index()];
        if listing.key == key {
            return;
        }
        if listing.key.is_some() {
            self.live -= 1;
        }
        listing.key = key;
        if let Some(key) = key {
            // The same key may return while a stale entry with it is still in the heap.
            listing.ticket = listing.ticket.wrapping_add(1);
            self.heap.push(Entry { key, sender, ticket: listing.ticket });
            self.live += 1;
        }
        if self.heap.len() > 2 * self.live + LITTER {
            let Self { heap, listings, .. } = self;
            heap.retain(|entry| holds(listings, entry));
        }
    }

    /// The first sender.
    pub(super) fn first(&mut self) -> Option<SenderId> {
        while let Some(entry) = self.heap.peek() {
            if holds(&self.listings, entry) {
                return Some(entry.sender);
            }
            self.heap.pop();
        }
        None
    }

    /// All senders with their keys, in no order. O(n).
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, SenderId)> {
        let holding = self.heap.iter().filter(|entry| holds(&self.listings, entry));
        holding.map(|entry| (entry.key, entry.sender))
    }

    /// Replaces all keys by `keys`, at most one per sender. O(n).
    pub(super) fn refill(&mut self, keys: impl IntoIterator<Item = (SenderId, Key)>) {
        let mut heap = core::mem::take(&mut self.heap).into_vec();
        heap.clear();
        self.listings.iter_mut().for_each(|listing| listing.key = None);
        heap.extend(keys.into_iter().map(|(sender, key)| {
            if self.listings.len() <= sender.index() {
                self.listings.resize(sender.index() + 1, Listing::default());
            }
            let listing = &mut self.listings[sender.index()];
            listing.key = Some(key);
            Entry { key, sender, ticket: listing.ticket }
        }));
        self.live = heap.len();
        self.heap = heap.into();
    }
}

fn holds(listings: &[Listing], entry: &Entry) -> bool {
    let Listing { key, ticket } = listings[entry.sender.index()];
    ticket == entry.ticket && key == Some(entry.key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_lane_is_a_sorted_map_with_little_litter() {
        let mut lane = Lane::default();
        let mut model: BTreeMap<SenderId, Key> = BTreeMap::new();
        let mut state = 7u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for step in 0..20_000u64 {
            let sender = SenderId(draw(40) as u32);
            // Few ranks, so that keys recur.
            let key = (draw(3) > 0).then(|| Key::best(i128::from(draw(5)), 40 * draw(3) + u64::from(sender.0)));
            lane.set(sender, key);
            match key {
                Some(key) => _ = model.insert(sender, key),
                None => _ = model.remove(&sender),
            }
            if draw(50) == 0 {
                model.values_mut().for_each(|key| key.worth = -key.worth);
                lane.refill(model.iter().map(|(sender, key)| (*sender, *key)));
            }
            let mut all: Vec<_> = lane.iter().collect();
            let mut expected: Vec<_> = model.iter().map(|(sender, key)| (*key, *sender)).collect();
            all.sort_unstable();
            expected.sort_unstable();
            assert_eq!(all, expected, "step {step}");
            assert_eq!(lane.first(), expected.last().map(|(_, sender)| *sender), "step {step}");
            assert!(lane.heap.len() <= 2 * model.len() + LITTER, "step {step}");
        }
    }

    #[test]
    fn the_worst_come_first_where_the_best_come_last() {
        let all = [(3, 9), (3, 4), (-2, 1), (7, 0)];
        let mut best = all.map(|(worth, rank)| Key::best(worth, rank));
        let mut worst = all.map(|(worth, rank)| Key::worst(worth, rank));
        best.sort_unstable();
        worst.sort_unstable();
        assert_eq!(best.last(), Some(&Key::best(7, 0)));
        assert_eq!(best[1], Key::best(3, 9), "at equal worth the younger is behind");
        assert!(
            best.iter().rev().zip(&worst).all(|(best, worst)| best.worth == -worst.worth && best.turn == !worst.turn)
        );
    }
}
