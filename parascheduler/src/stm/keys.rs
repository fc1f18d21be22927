//! A hash table from keyed digests to numbers, read without a lock.

use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use std::sync::{OnceLock, PoisonError};

/// Numbers by digest, insert-only. A lookup takes no lock and writes nothing, so that workers which look for the same keys
/// share the lines of a table. An insertion locks one shard.
///
/// A table that fills up is followed by one of twice the size that holds its keys as well. The old one stays for threads that
/// still read it. A key that such a thread misses is looked up again under the lock, in the last table, before it is added.
#[derive(Debug)]
pub(crate) struct Keys {
    shards: Box<[Shard]>,
}

#[derive(Debug)]
#[repr(align(64))]
struct Shard {
    /// Index of the last table.
    last: AtomicUsize,
    /// Number of keys.
    len: Mutex<usize>,
    tables: [OnceLock<Table>; TABLES],
}

/// Open addressing: the upper half of a digest and a number plus one, or zero if free. At most three quarters are taken.
type Table = Box<[AtomicU64]>;

/// Maximum number of tables of a shard: more than memory has room for.
const TABLES: usize = 28;

/// Number of shards: as many threads can add at once, in the best case.
const SHARDS: usize = 16;

/// Places of the smallest first table.
const PLACES: usize = 16;

impl Keys {
    /// Creates a table with room for so many keys before it grows, as long as digests are spread.
    pub(crate) fn new(expected: usize) -> Self {
        Self::with_places(SHARDS, (2 * expected / SHARDS).max(PLACES))
    }

    /// Creates a table of at least so many shards, each with at least so many places in its first table.
    ///
    /// # Panics
    /// If there is no shard.
    pub(crate) fn with_places(shards: usize, places: usize) -> Self {
        assert!(shards != 0, "at least one shard");
        let shards = (0..shards.next_power_of_two()).map(|_| Shard::new(places.next_power_of_two().max(2)));
        Self { shards: shards.collect() }
    }

    /// Returns the number under `digest` that `is` recognises, or else adds the one that `add` gives.
    ///
    /// # Panics
    /// If there are more keys than memory has room for.
    pub(crate) fn find_or_add(&self, digest: u64, is: impl Fn(u32) -> bool, add: impl FnOnce() -> u32) -> u32 {
        let shard = &self.shards[digest as usize & (self.shards.len() - 1)];
        let tag = digest >> 32;
        // Acquire: the table's keys were put before it became the last.
        let table = shard.table(shard.last.load(Ordering::Acquire));
        find(table, tag, &is).unwrap_or_else(|| shard.find_or_add(tag, is, add))
    }
}

impl Shard {
    fn new(places: usize) -> Self {
        let tables = [const { OnceLock::new() }; TABLES];
        tables[0].get_or_init(|| empty(places));
        Self { last: AtomicUsize::new(0), len: Mutex::new(0), tables }
    }

    fn table(&self, at: usize) -> &Table {
        self.tables[at].get().expect("made before it became the last")
    }

    /// [`Keys::find_or_add`] under the lock.
    #[cold]
    fn find_or_add(&self, tag: u64, is: impl Fn(u32) -> bool, add: impl FnOnce() -> u32) -> u32 {
        let mut len = self.len.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = self.last.load(Ordering::Relaxed);
        if let Some(number) = find(self.table(last), tag, is) {
            return number;
        }
        if (*len + 1) * 4 > self.table(last).len() * 3 {
            let full = self.table(last);
            let larger = empty(2 * full.len());
            for entry in full.iter().map(|place| place.load(Ordering::Relaxed)).filter(|entry| *entry != 0) {
                put(&larger, entry);
            }
            last += 1;
            self.tables[last].get_or_init(|| larger);
            self.last.store(last, Ordering::Release);
        }
        let number = add();
        put(self.table(last), tag << 32 | (u64::from(number) + 1));
        *len += 1;
        number
    }
}

/// Creates an empty table.
fn empty(places: usize) -> Table {
    (0..places).map(|_| AtomicU64::new(0)).collect()
}

/// Places of a key, in the order in which they are probed.
fn places(table: &Table, tag: u64) -> impl Iterator<Item = &AtomicU64> {
    (0..table.len()).map(move |step| &table[(tag as usize).wrapping_add(step) & (table.len() - 1)])
}

/// Returns the number under `tag` that `is` recognises.
fn find(table: &Table, tag: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
    places(table, tag)
        // Acquire: the key was made before its number was put.
        .map(|place| place.load(Ordering::Acquire))
        .take_while(|entry| *entry != 0)
        .filter(|entry| entry >> 32 == tag)
        .map(|entry| (entry as u32).wrapping_sub(1))
        .find(|number| is(*number))
}

/// Puts an entry into the first free place; there is one. Only one thread at a time may call it.
fn put(table: &Table, entry: u64) {
    let place = places(table, entry >> 32).find(|place| place.load(Ordering::Relaxed) == 0);
    place.expect("a quarter is empty").store(entry, Ordering::Release);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Adds `digests`, each a key of its own, and looks all of them up.
    fn add_all(keys: &Keys, digests: &[u64]) {
        for round in 0..2 {
            for (name, digest) in (0..).zip(digests) {
                let added = Cell::new(false);
                let add = || {
                    added.set(true);
                    name
                };
                assert_eq!(keys.find_or_add(*digest, |number| number == name, add), name);
                assert_eq!(added.get(), round == 0, "each is new once, and known then");
            }
        }
    }

    /// Length of the longest probe.
    fn longest(keys: &Keys) -> usize {
        let runs = keys.shards.iter().flat_map(|shard| {
            let table = shard.table(shard.last.load(Ordering::Relaxed));
            table.split(|place| place.load(Ordering::Relaxed) == 0)
        });
        runs.map(<[_]>::len).max().unwrap_or_default()
    }

    #[test]
    fn probes_stay_short_with_many_more_keys_than_expected() {
        let keys = Keys::new(10);
        let digests: Vec<u64> = (1..=100_000).map(|key: u64| key.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        add_all(&keys, &digests);
        assert!(longest(&keys) < 200, "{}", longest(&keys));
    }

    #[test]
    fn keys_with_equal_digests_take_one_place_each() {
        let keys = Keys::new(10);
        add_all(&keys, &[7; 5_000]);
        assert_eq!(keys.find_or_add(1 << 40, |_| unreachable!("no other key has this digest"), || 5_000), 5_000);
        let made = keys.shards.iter().flat_map(|shard| &shard.tables).filter_map(OnceLock::get);
        assert!(made.map(|table| table.len()).sum::<usize>() < 6 * 5_000, "equal digests take no more memory");
    }
}
