//! One entry per sender in order of worth, at a base fee that changes.

use super::bid::{Bid, number};
use alloy_primitives::{Address, map::AddressMap};
use core::cmp::Reverse;
use std::{
    collections::{BTreeSet, btree_set},
    iter::Peekable,
};

/// A sender's place among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) bid: Bid,
    /// Added to the worth, whatever the base fee.
    pub(super) bonus: i128,
    /// Who came first is ahead at equal worth.
    pub(super) rank: u64,
}

/// Best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    value: Reverse<i128>,
    rank: u64,
    sender: Address,
}

/// Senders by what their entry is worth.
///
/// The worth `min(cap - base, tip)` of an entry follows the base fee in one of two ways: below the entry's turning point it
/// is the tip and stays, above it falls with every wei, as it does for all others there. So two sorted lanes need no new
/// order when the base fee moves: only those change lanes whose turning point it passed. The whole order is the merger of
/// both. O(log n) per entry set or passed.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    base: i128,
    entries: AddressMap<Entry>,
    /// By `tip + bonus`: base fee up to the turning point.
    free: BTreeSet<Key>,
    /// By `cap + bonus`: base fee beyond it.
    capped: BTreeSet<Key>,
    turns: BTreeSet<(i128, Address)>,
}

impl Lanes {
    /// Sets or removes a sender's entry.
    pub(super) fn set(&mut self, sender: Address, entry: Option<Entry>) {
        let old = match entry {
            Some(entry) => self.entries.insert(sender, entry),
            None => self.entries.remove(&sender),
        };
        if old == entry {
            return;
        }
        if let Some(old) = old {
            self.turns.remove(&(old.bid.turn(), sender));
            let (lane, key) = self.lane(sender, old);
            lane.remove(&key);
        }
        if let Some(entry) = entry {
            self.turns.insert((entry.bid.turn(), sender));
            let (lane, key) = self.lane(sender, entry);
            lane.insert(key);
        }
    }

    const fn lane(&mut self, sender: Address, Entry { bid, bonus, rank }: Entry) -> (&mut BTreeSet<Key>, Key) {
        let (lane, price) =
            if self.base <= bid.turn() { (&mut self.free, bid.tip) } else { (&mut self.capped, bid.cap) };
        (lane, Key { value: Reverse(number(price) + bonus), rank, sender })
    }

    /// Moves the base fee. O(k log n) for k entries whose turning point it passes.
    pub(super) fn set_base(&mut self, base: u128) {
        let base = number(base);
        let (low, high) = (self.base.min(base), self.base.max(base));
        let passed: Vec<Address> =
            self.turns.range((low, Address::ZERO)..(high, Address::ZERO)).map(|(_, sender)| *sender).collect();
        let moved: Vec<(Address, Entry)> =
            passed.into_iter().filter_map(|sender| Some((sender, *self.entries.get(&sender)?))).collect();
        for (sender, _) in &moved {
            self.set(*sender, None);
        }
        self.base = base;
        for (sender, entry) in moved {
            self.set(sender, Some(entry));
        }
    }

    /// Whose entry is worth least; at equal worth, who came last. O(log n).
    pub(super) fn worst(&self) -> Option<Address> {
        let free = self.free.last().copied();
        let capped = self.capped.last().map(|key| self.at_base(key));
        Some(free.max(capped)?.sender)
    }

    /// Best first, with the worth, bonus included. O(log n) for the first.
    pub(super) fn best(&self) -> Best<'_> {
        Best { lanes: self, free: self.free.iter().peekable(), capped: self.capped.iter().peekable() }
    }

    const fn at_base(&self, key: &Key) -> Key {
        Key { value: Reverse(key.value.0 - self.base), rank: key.rank, sender: key.sender }
    }
}

/// Senders in order of worth.
#[derive(Clone, Debug)]
pub(super) struct Best<'a> {
    lanes: &'a Lanes,
    free: Peekable<btree_set::Iter<'a, Key>>,
    capped: Peekable<btree_set::Iter<'a, Key>>,
}

/// A sender with the worth and the rank of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ranked {
    pub(super) worth: i128,
    pub(super) rank: u64,
    pub(super) sender: Address,
}

impl Best<'_> {
    pub(super) fn peek(&mut self) -> Option<Ranked> {
        let free = self.free.peek().map(|key| **key);
        let capped = self.capped.peek().map(|key| self.lanes.at_base(key));
        let Key { value: Reverse(worth), rank, sender } = free.into_iter().chain(capped).min()?;
        Some(Ranked { worth, rank, sender })
    }
}

impl Iterator for Best<'_> {
    type Item = Ranked;

    fn next(&mut self) -> Option<Ranked> {
        let next = self.peek()?;
        let from_free = self.free.peek().is_some_and(|key| key.sender == next.sender);
        _ = if from_free { self.free.next() } else { self.capped.next() };
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_worth_at_every_base_fee() {
        let mut lanes = Lanes::default();
        let mut entries: Vec<(Address, Entry)> = Vec::new();
        let mut state = 7u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut base = 0;
        for step in 0..4_000u64 {
            let sender = Address::with_last_byte(draw(40) as u8);
            entries.retain(|(other, _)| *other != sender);
            if draw(3) == 0 {
                lanes.set(sender, None);
            } else {
                let cap = u128::from(draw(30));
                let bid = Bid { cap, tip: cap.min(u128::from(draw(30))) };
                let entry = Entry { bid, bonus: -i128::from(draw(4)), rank: step };
                lanes.set(sender, Some(entry));
                entries.push((sender, entry));
            }
            if draw(4) == 0 {
                base = u128::from(draw(32));
                lanes.set_base(base);
            }
            let worth = |entry: &Entry| entry.bid.worth(base) + entry.bonus;
            entries.sort_by_key(|(sender, entry)| (Reverse(worth(entry)), entry.rank, *sender));
            let ranked = entries.iter().map(|(sender, e)| Ranked { worth: worth(e), rank: e.rank, sender: *sender });
            assert!(lanes.best().eq(ranked), "step {step}, base fee {base}");
            assert_eq!(lanes.worst(), entries.last().map(|(sender, _)| *sender), "step {step}, base fee {base}");
        }
    }
}
