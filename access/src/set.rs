//! Access sets: of one transaction, and of many in one arena.

use crate::kind::Access;
use core::ops::Range;
use phalanx_memory::{Reuse, prefetch};

/// Accesses of one transaction: each key once, with the join of its accesses, in order of first access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessSet<K> {
    entries: Vec<(K, Access)>,
}

impl<K> Default for AccessSet<K> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<K: Copy + Eq> AccessSet<K> {
    /// Creates an empty set.
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Adds an access, joined with the access that the set holds of this key. O(keys); see [`AccessSets`] for bulk.
    pub fn add(&mut self, key: K, access: Access) {
        match self.entries.iter_mut().find(|(k, _)| *k == key) {
            Some((_, held)) => *held = held.join(access),
            None => self.entries.push((key, access)),
        }
    }

    /// Adds an access of a key that the set does not hold, which the caller knows. O(1).
    pub fn add_new(&mut self, key: K, access: Access) {
        self.entries.push((key, access));
    }

    /// Returns the access that the set holds of `key`.
    pub fn get(&self, key: &K) -> Option<Access> {
        self.entries.iter().find(|(k, _)| k == key).map(|(_, access)| *access)
    }

    /// Returns true if an access of one set conflicts with an access of the other.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.entries.iter().any(|(key, access)| other.get(key).is_some_and(|o| access.conflicts(o)))
    }

    /// Returns true if `self` permits every access of `actual`.
    pub fn covers(&self, actual: &Self) -> bool {
        actual.entries.iter().all(|(key, access)| self.get(key).is_some_and(|p| p.covers(*access)))
    }

    /// All accesses, each key once.
    pub fn as_slice(&self) -> &[(K, Access)] {
        &self.entries
    }
}

impl<K: Copy + Eq> FromIterator<(K, Access)> for AccessSet<K> {
    fn from_iter<I: IntoIterator<Item = (K, Access)>>(iter: I) -> Self {
        let mut set = Self::new();
        for (key, access) in iter {
            set.add(key, access);
        }
        set
    }
}

/// Access sets of many transactions in one flat arena: each set is a slice, and a million sets are two allocations.
///
/// # Invariants
/// Within a set no key appears twice. The caller keeps this ([`AccessSet`] does).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessSets<K> {
    entries: Vec<(K, Access)>,
    /// End of each set in `entries`.
    ends: Vec<u32>,
}

impl<K> Default for AccessSets<K> {
    fn default() -> Self {
        Self { entries: Vec::new(), ends: Vec::new() }
    }
}

impl<K> AccessSets<K> {
    /// Creates an empty arena.
    pub const fn new() -> Self {
        Self { entries: Vec::new(), ends: Vec::new() }
    }

    /// Creates an empty arena with room for so many accesses of so many transactions.
    pub fn with_capacity(accesses: usize, sets: usize) -> Self {
        Self { entries: Vec::with_capacity(accesses), ends: Vec::with_capacity(sets) }
    }

    /// Appends the set of the next transaction.
    ///
    /// # Panics
    /// If the arena would hold 2^32 accesses.
    #[inline]
    pub fn push(&mut self, set: impl IntoIterator<Item = (K, Access)>) {
        self.entries.extend(set);
        self.close();
    }

    /// Appends one access to the set that is being built; [`Self::close`] ends it.
    #[inline]
    pub fn add(&mut self, key: K, access: Access) {
        self.entries.push((key, access));
    }

    /// Accesses added since the last [`Self::close`].
    #[inline]
    pub fn open_set(&mut self) -> &mut [(K, Access)] {
        let start = self.ends.last().map_or(0, |end| *end as usize);
        &mut self.entries[start..]
    }

    /// Ends the set that is being built.
    ///
    /// # Panics
    /// If the arena would hold 2^32 accesses.
    #[inline]
    pub fn close(&mut self) {
        self.ends.push(u32::try_from(self.entries.len()).expect("fewer than 2^32 accesses in one arena"));
    }

    /// Returns the set of transaction `index`.
    ///
    /// # Panics
    /// If there is no such transaction.
    #[inline]
    pub fn get(&self, index: usize) -> &[(K, Access)] {
        &self.entries[self.range(index)]
    }

    /// Prefetches the set that is about `ahead` sets behind the set of `index`, for a thread that reads neighbouring sets in
    /// order.
    #[inline]
    pub fn prefetch_ahead(&self, index: usize, ahead: usize) {
        if let Some(end) = self.ends.get(index + ahead) {
            prefetch(end);
        }
        // An estimate of its place: as if all sets were as large as this one.
        let Range { start, end } = self.range(index);
        if let Some(entry) = self.entries.get(start + (end - start) * ahead) {
            prefetch(entry);
        }
    }

    /// Prefetches the end of the set of `index`, if there is such a set.
    #[inline]
    pub fn prefetch_end(&self, index: usize) {
        self.ends.get(index).into_iter().for_each(prefetch);
    }

    /// Returns the range of [`Self::entries`] that is the set of transaction `index`.
    ///
    /// # Panics
    /// If there is no such transaction.
    #[inline]
    pub fn range(&self, index: usize) -> Range<usize> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        start..self.ends[index] as usize
    }

    /// All accesses of all transactions, in order.
    #[inline]
    pub fn entries(&self) -> &[(K, Access)] {
        &self.entries
    }

    /// Iterates over the sets in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[(K, Access)]> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Number of transactions.
    #[inline]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is no transaction.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Replaces all sets. `ends` are their ends, ascending, and `fill` puts all their accesses, in order, into the empty vector
    /// that it gets: many threads may write them.
    ///
    /// # Panics
    /// If the number of accesses is not the last end.
    pub fn refill(&mut self, ends: impl Iterator<Item = u32>, fill: impl FnOnce(&mut Vec<(K, Access)>)) {
        self.clear();
        self.ends.extend(ends);
        fill(&mut self.entries);
        debug_assert!(self.ends.is_sorted());
        assert_eq!(self.entries.len(), self.ends.last().map_or(0, |end| *end as usize), "all accesses are there");
    }

    /// Removes all sets and keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.ends.clear();
    }
}

impl<K> Reuse for AccessSets<K> {
    fn clear(&mut self) {
        self.clear();
    }

    fn capacity(&self) -> usize {
        self.entries.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Access::{Credit, Read, Write};

    #[test]
    fn a_set_joins_accesses_of_one_key() {
        let set: AccessSet<u64> = [(1, Read), (2, Credit), (1, Credit), (2, Credit)].into_iter().collect();
        assert_eq!(set.as_slice(), [(1, Write), (2, Credit)]);
        assert_eq!(set.get(&3), None);
    }

    #[test]
    fn sets_conflict_and_cover_by_key() {
        let a: AccessSet<u64> = [(1, Read), (2, Credit)].into_iter().collect();
        let b: AccessSet<u64> = [(1, Read), (2, Credit), (3, Write)].into_iter().collect();
        let c: AccessSet<u64> = [(2, Read)].into_iter().collect();
        assert!(!a.conflicts(&b));
        assert!(a.conflicts(&c) && c.conflicts(&a));
        assert!(b.covers(&a) && !a.covers(&b) && !a.covers(&c));
    }

    #[test]
    fn an_arena_returns_the_pushed_sets() {
        let mut sets = AccessSets::new();
        sets.push([(1u64, Read)]);
        sets.push([]);
        sets.add(2, Write);
        sets.add(3, Read);
        sets.open_set()[1].1 = Credit;
        sets.close();
        assert_eq!(sets.iter().collect::<Vec<_>>(), [&[(1, Read)][..], &[], &[(2, Write), (3, Credit)]]);
        assert_eq!(sets.range(2), 1..3);
        sets.refill([2, 2, 3].into_iter(), |all| all.extend([(4, Read), (5, Write), (4, Credit)]));
        assert_eq!(sets.iter().collect::<Vec<_>>(), [&[(4, Read), (5, Write)][..], &[], &[(4, Credit)]]);
        sets.clear();
        assert!(sets.is_empty());
    }
}
