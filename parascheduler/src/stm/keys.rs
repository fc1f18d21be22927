use crate::sync::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// Numbers by digest, insert-only, without a lock: what is found is only read, so that workers who look for the same keys
/// share the lines of the table instead of taking turns at them.
///
/// A digest has a fixed sequence of places: a window of the first table, one of the second, and so on, each table twice as large as
/// the one before and each window four times, so that many equal digests need few tables. A number goes to the first place that is empty, and a place that is taken
/// stays as it is. So whoever finds an empty place has seen all that came before, and of two who add the same key one
/// finds the place taken and then the other's number in it.
#[derive(Debug)]
pub(crate) struct Keys {
    first: Table,
    more: [OnceLock<Table>; MORE],
}

/// A number plus one beside the upper half of its digest, or zero.
type Table = Box<[AtomicU64]>;

/// Tables beside the first: more than memory has room for.
const MORE: usize = 31;

/// Places of the first window: one or two lines of a cache.
const WINDOW: usize = 16;

impl Keys {
    /// With room for that many before there is a second table, as long as digests are spread.
    pub(crate) fn new(expected: usize) -> Self {
        let first = table((expected + expected / 2).max(WINDOW).next_power_of_two());
        Self { first, more: [const { OnceLock::new() }; MORE] }
    }

    /// The number under `digest` that `is` recognises; if there is none, what `add` gives, which is asked once at most.
    /// If somebody else adds the same meanwhile, what `add` gave belongs to nothing.
    ///
    /// # Panics
    /// If there is no place left in more tables than memory has room for.
    pub(crate) fn find_or_add(&self, digest: u64, is: impl Fn(u32) -> bool, add: impl FnOnce() -> u32) -> u32 {
        let tag = digest & !u64::from(u32::MAX);
        let (mut add, mut added) = (Some(add), None);
        for level in 0..=MORE {
            let table = match level.checked_sub(1) {
                None => &self.first,
                Some(at) => self.more[at].get_or_init(|| table(self.first.len() << level)),
            };
            for step in 0..(WINDOW << (2 * level).min(32)).min(table.len()) {
                let place = &table[(digest as usize).wrapping_add(step) & (table.len() - 1)];
                // Acquire, here and below: whoever wrote the number has made the key before.
                let mut held = place.load(Ordering::Acquire);
                if held == 0 {
                    let number = *added.get_or_insert_with(|| add.take().expect("taken once")());
                    let entry = tag | (u64::from(number) + 1);
                    match place.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Acquire) {
                        Ok(_) => return number,
                        Err(now) => held = now,
                    }
                }
                let number = (held as u32).wrapping_sub(1);
                if held & !u64::from(u32::MAX) == tag && is(number) {
                    return number;
                }
            }
        }
        panic!("no place for another key");
    }
}

/// An empty table.
fn table(places: usize) -> Table {
    (0..places).map(|_| AtomicU64::new(0)).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn equal_digests_take_few_tables() {
        let keys = Keys::new(4_000);
        let next = Cell::new(0);
        let number = |name: u32| {
            let add = || {
                next.set(name + 1);
                name
            };
            keys.find_or_add(7, |number| number == name, add)
        };
        assert!((0..5_000).all(|name| number(name) == name && next.get() == name + 1), "each is new once");
        assert!((0..5_000).rev().all(|name| number(name) == name) && next.get() == 5_000, "and known then");
        let more = keys.more.iter().filter(|table| table.get().is_some()).count();
        assert_eq!(more, 4, "16 + 64 + 256 + 1024 + 4096 places");
        assert_eq!(keys.find_or_add(1 << 40, |_| unreachable!("no other key has this digest"), || 5_000), 5_000);
    }
}
