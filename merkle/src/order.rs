//! Sorts a block's operations by key hash.

use crate::par;

/// An operation on its way into the commitment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Item {
    /// The first eight bytes of the key's digest, big endian.
    pub(crate) prefix: u64,
    /// Orders operations on one key: grows with the operation's rank in the delta (see `resolve`).
    pub(crate) op: u32,
    /// Whose record (see `resolve`).
    pub(crate) key: u32,
}

/// Items that a bucket holds on average.
const BUCKET: usize = 8;

/// More buckets than these do not fit the caches that scattering writes through.
const MAX_BUCKET_BITS: u32 = 16;

/// Puts all items in order of `(prefix, op)`.
///
/// The prefixes are hashes, so one scatter by their top bits leaves buckets of a few items each: O(n) for keys that nobody
/// chose, O(n log n) at worst.
pub(crate) fn sort<'a>(chunks: impl Iterator<Item = &'a [Item]> + Clone) -> Vec<Item> {
    let len: usize = chunks.clone().map(<[Item]>::len).sum();
    let bits = (len / BUCKET).max(1).ilog2().clamp(1, MAX_BUCKET_BITS);
    let bucket = |item: &Item| (item.prefix >> (64 - bits)) as usize;

    let mut ends = vec![0usize; 1 << bits];
    chunks.clone().flatten().for_each(|item| ends[bucket(item)] += 1);
    let mut next = 0;
    for end in &mut ends {
        (*end, next) = (next, next + *end);
    }
    let mut items = vec![Item::default(); len];
    for item in chunks.flatten() {
        let at = &mut ends[bucket(item)];
        items[*at] = *item;
        *at += 1;
    }

    // `ends` now says where each bucket ends.
    if par::worth(len * 20) {
        sort_buckets_parallel(&mut items, 0, &ends)
    } else {
        sort_buckets(&mut items, 0, &ends)
    }
    items
}

/// Sorts the buckets that `items` consists of; the first begins at `begin`.
fn sort_buckets(items: &mut [Item], begin: usize, ends: &[usize]) {
    let mut start = 0;
    for end in ends {
        items[start..end - begin].sort_unstable_by_key(|item| (item.prefix, item.op));
        start = end - begin;
    }
}

fn sort_buckets_parallel(items: &mut [Item], begin: usize, ends: &[usize]) {
    if ends.len() < 2 || items.len() < 8192 {
        return sort_buckets(items, begin, ends);
    }
    let (left, right) = ends.split_at(ends.len() / 2);
    let middle = left[left.len() - 1];
    let (low, high) = items.split_at_mut(middle - begin);
    rayon::join(|| sort_buckets_parallel(low, begin, left), || sort_buckets_parallel(high, middle, right));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};

    #[test]
    fn equals_a_plain_sort_for_spread_and_for_crafted_prefixes() {
        for seed in 0..6 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            for len in [0usize, 1, 2, 7, 100, 5_000, 60_000] {
                let few = rng.random_bool(0.3);
                let items: Vec<Item> = (0..len)
                    .map(|op| {
                        let prefix = if few { u64::from(rng.random::<u8>() % 3) } else { rng.random() };
                        Item { prefix, op: op as u32, key: rng.random() }
                    })
                    .collect();
                let mut expected = items.clone();
                expected.sort_by_key(|item| (item.prefix, item.op));
                assert_eq!(sort(items.chunks(977)), expected, "seed {seed} length {len}");
            }
        }
    }
}
