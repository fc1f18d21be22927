//! Sorts a block's operations by key hash.
//!
//! Prefixes are hashes, so scattering by their top bits leaves a few items per bucket: O(n), and O(n log n) for crafted
//! keys. Many items are scattered twice, each time within a cache and shared by threads: every run into [`PARTS`], then
//! each part of all runs.

/// Operation in the order of key hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Item {
    /// First eight bytes of the key's digest, big endian.
    pub(crate) prefix: u64,
    /// Orders the operations on one key: ascending with the rank in the delta (see `resolve`).
    pub(crate) op: u32,
    /// Key of the operation (see `resolve`).
    pub(crate) key: u32,
}

/// Number of parts that prefixes are divided into, by their top bits.
pub(crate) const PARTS: usize = 1 << PART_BITS;
const PART_BITS: u32 = 6;

/// Average items per bucket.
const BUCKET: usize = 3;

/// Maximum bits of a bucket number: more buckets do not fit the caches that scattering writes through.
const MAX_BUCKET_BITS: u32 = 16;

/// Items of one run, by part.
#[derive(Debug)]
pub(crate) struct Parted {
    items: Vec<Item>,
    ends: [usize; PARTS],
}

impl Parted {
    /// Divides items into parts, keeping their order within each.
    pub(crate) fn new(items: &[Item]) -> Self {
        let mut ends = [0; PARTS];
        let items = scatter(core::iter::once(items), 0, PART_BITS, &mut ends);
        Self { items, ends }
    }

    fn part(&self, part: usize) -> &[Item] {
        let start = if part == 0 { 0 } else { self.ends[part - 1] };
        &self.items[start..self.ends[part]]
    }
}

/// Sorts items by `(prefix, op)`.
pub(crate) fn sort(items: &[Item]) -> Vec<Item> {
    sort_below(core::iter::once(items), 0)
}

/// Sorts one part of all runs by `(prefix, op)`. Parts of lower numbers come first.
pub(crate) fn sort_part(runs: &[Parted], part: usize) -> Vec<Item> {
    sort_below(runs.iter().map(|run| run.part(part)), PART_BITS)
}

/// Sorts items whose prefixes share their first `known` bits.
fn sort_below<'a>(chunks: impl Iterator<Item = &'a [Item]> + Clone, known: u32) -> Vec<Item> {
    let len: usize = chunks.clone().map(<[Item]>::len).sum();
    let bits = (len / BUCKET).max(1).ilog2().clamp(1, MAX_BUCKET_BITS);
    let mut ends = vec![0; 1 << bits];
    let mut items = scatter(chunks, known, bits, &mut ends);
    let mut start = 0;
    for end in ends {
        items[start..end].sort_unstable_by_key(|item| (item.prefix, item.op));
        start = end;
    }
    items
}

/// Scatters items into buckets by the `bits` of their prefix behind the first `known`. `ends`, which is zero, becomes
/// the end of each bucket.
fn scatter<'a>(
    chunks: impl Iterator<Item = &'a [Item]> + Clone,
    known: u32,
    bits: u32,
    ends: &mut [usize],
) -> Vec<Item> {
    let bucket = |item: &Item| (item.prefix << known >> (64 - bits)) as usize;
    chunks.clone().flatten().for_each(|item| ends[bucket(item)] += 1);
    let mut next = 0;
    for end in &mut *ends {
        (*end, next) = (next, next + *end);
    }
    let mut items = vec![Item::default(); next];
    for item in chunks.flatten() {
        let at = &mut ends[bucket(item)];
        items[*at] = *item;
        *at += 1;
    }
    items
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
                assert_eq!(sort(&items), expected, "seed {seed} length {len}");
                let runs: Vec<_> = items.chunks(977).map(Parted::new).collect();
                let parts: Vec<_> = (0..PARTS).flat_map(|part| sort_part(&runs, part)).collect();
                assert_eq!(parts, expected, "seed {seed} length {len} in parts");
            }
        }
    }
}
