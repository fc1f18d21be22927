//! All keys of a resident state in the order of their hashes: finds the predecessor of a hash.

use std::cmp::Ordering;

use phalanx_memory::{PrefetchIterator as _, prefetch};
use phalanx_merkle_proof::Hash;
use rayon::prelude::*;

use crate::types::prefix;

/// Maximum number of keys in a leaf.
const LEAF: usize = 128;

/// Keys per leaf of an order that is built at once.
const BUILT: usize = LEAF * 3 / 4;

/// Leading bits that the hashes of a group share.
const GROUP_BITS: u32 = 12;
const GROUPS: usize = 1 << GROUP_BITS;

/// Runs of groups that keys are sorted in.
const RUNS: usize = 256;

/// Pieces that threads insert keys in.
pub(crate) const PIECES: usize = 64;

/// Keys between the prefetch of a leaf and its use. The bounds of its group are prefetched twice as far ahead, or three
/// times.
pub(crate) const KEY_ORDER_LOOKAHEAD: usize = 8;

/// Slots per cache line.
const SLOTS_OF_LINE: usize = 64 / size_of::<u64>();

/// Ids in the order of their keys' hashes, in leaves of up to 128: about ten bytes per key, and 96 KiB.
///
/// Leaves are found by whole hashes, so that keys with a common prefix cannot make a leaf grow. To fill one group with
/// `n` keys takes 4,096 times as many; splitting one of its leaves then moves `n / 2` bytes.
#[derive(Debug)]
pub(crate) struct KeyOrder {
    groups: Vec<Group>,
}

/// Leaves in the order of their bounds, none of them empty.
#[derive(Debug, Default)]
struct Group(Vec<Leaf>);

/// Neighbouring keys.
///
/// # Invariants
/// A leaf holds the ids whose hashes lie from its bound up to the next leaf's bound; the first leaf of a group also
/// holds those below its bound.
#[derive(Debug)]
struct Leaf {
    bound: Words,
    /// Four bytes of each hash, then the id.
    slots: Vec<u64>,
}

/// Hash as words, which have the same order and compare faster.
type Words = [u64; 4];

/// Hash of a key, and its id.
type Placed = (Hash, u32);

fn words(hash: &Hash) -> Words {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(hash.as_chunks().0) {
        *word = u64::from_be_bytes(*bytes);
    }
    words
}

/// Group of a hash, by prefix.
#[inline]
const fn group_of(prefix: u64) -> usize {
    (prefix >> (u64::BITS - GROUP_BITS)) as usize
}

/// Slot of a key, by the prefix of its hash.
const fn slot(prefix: u64, id: u32) -> u64 {
    prefix >> 32 << 32 | id as u64
}

const fn id_of(slot: u64) -> u32 {
    slot as u32
}

/// Number of hashes in a leaf that are below `hash`.
#[inline]
fn rank(slots: &[u64], hash: &Hash, hash_of: impl Fn(u32) -> Hash) -> usize {
    let wanted = prefix(hash) >> 32;
    slots.partition_point(|slot| match (slot >> 32).cmp(&wanted) {
        Ordering::Equal => hash_of(id_of(*slot)) < *hash,
        order => order.is_lt(),
    })
}

impl Leaf {
    /// Creates a leaf of ids that are in order.
    fn of(slots: &[u64], hash_of: impl Fn(u32) -> Hash) -> Self {
        Self { bound: words(&hash_of(id_of(slots[0]))), slots: slots.to_vec() }
    }

    fn insert(&mut self, rank: usize, slot: u64) {
        if self.slots.len() == self.slots.capacity() {
            // In small steps: reserved memory counts per key.
            self.slots.reserve_exact(self.slots.len() / 16 + 4);
        }
        self.slots.insert(rank, slot);
    }
}

impl Group {
    /// Leaf of a hash.
    #[inline]
    fn find(&self, hash: &Hash) -> usize {
        self.find_words(&words(hash))
    }

    #[inline]
    fn find_words(&self, hash: &Words) -> usize {
        self.0.partition_point(|leaf| leaf.bound <= *hash).saturating_sub(1)
    }

    /// Leaf that a hash is most likely in, by prefix.
    #[inline]
    fn near(&self, prefix: u64) -> &[u64] {
        self.0.get(self.find_words(&[prefix, 0, 0, 0])).map_or(&[], |leaf| &leaf.slots)
    }

    /// Prefetches the bounds that [`Self::prefetch`] reads first.
    #[inline]
    fn prefetch_bounds(&self) {
        self.0.get(self.0.len() / 2).into_iter().for_each(prefetch);
    }

    /// Prefetches the leaf of a hash, by prefix.
    #[inline]
    fn prefetch(&self, prefix: u64) {
        self.near(prefix).iter().step_by(SLOTS_OF_LINE).for_each(prefetch);
    }

    /// Adds keys that are not in the group, given in order.
    fn insert_all(&mut self, mut keys: &[Placed], hash_of: impl Fn(u32) -> Hash) {
        // From the end: splitting a leaf leaves those before it in place.
        while let Some((hash, _)) = keys.last() {
            let at = self.find(hash);
            let bound = if at == 0 { [0; 4] } else { self.0[at].bound };
            let first = keys.partition_point(|(hash, _)| words(hash) < bound);
            self.fill(at, &keys[first..], &hash_of);
            keys = &keys[..first];
        }
    }

    /// Adds keys to the leaf at `at`, in whose range they are. Without a leaf, they become one.
    fn fill(&mut self, at: usize, keys: &[Placed], hash_of: impl Fn(u32) -> Hash) {
        if let Some(leaf) = self.0.get_mut(at).filter(|leaf| leaf.slots.len() + keys.len() <= LEAF) {
            for (hash, id) in keys {
                leaf.insert(rank(&leaf.slots, hash, &hash_of), slot(prefix(hash), *id));
            }
            return;
        }
        let held = self.0.get(at).map_or(&[][..], |leaf| &leaf.slots);
        let (mut all, mut left) = (Vec::with_capacity(held.len() + keys.len()), held);
        for (hash, id) in keys {
            let (before, behind) = left.split_at(rank(left, hash, &hash_of));
            all.extend_from_slice(before);
            all.push(slot(prefix(hash), *id));
            left = behind;
        }
        all.extend_from_slice(left);
        // Keys that arrive in order, as in a genesis, leave full leaves behind.
        let is_behind = all[held.len()] == slot(prefix(&keys[0].0), keys[0].1);
        let each = if is_behind { LEAF } else { all.len().div_ceil(all.len().div_ceil(BUILT)) };
        let leaves: Vec<Leaf> = all.chunks(each).map(|slots| Leaf::of(slots, &hash_of)).collect();
        self.0.splice(at..self.0.len().min(at + 1), leaves);
    }

    /// Last id.
    fn last(&self) -> Option<u32> {
        self.0.last().and_then(|leaf| leaf.slots.last()).map(|slot| id_of(*slot))
    }

    /// Bytes of the leaves.
    fn memory(&self) -> usize {
        let slots: usize = self.0.iter().map(|leaf| leaf.slots.capacity()).sum();
        slots * size_of::<u64>() + self.0.capacity() * size_of::<Leaf>()
    }
}

/// Neighbouring groups, and keys to be added to them.
pub(crate) struct Piece<'r> {
    /// First of the groups.
    first: usize,
    groups: &'r mut [Group],
    keys: &'r [Placed],
}

impl Piece<'_> {
    /// Adds the keys.
    pub(crate) fn insert(self, hash_of: impl Fn(u32) -> Hash) {
        let Self { first, groups, keys } = self;
        let at = |(hash, _): &Placed| group_of(prefix(hash)) - first;
        let mut lookahead = keys.iter().lookahead([2 * KEY_ORDER_LOOKAHEAD, KEY_ORDER_LOOKAHEAD]);
        for keys in keys.chunk_by(|a, b| at(a) == at(b)) {
            for (_, [far, near]) in lookahead.by_ref().take(keys.len()) {
                far.into_iter().for_each(|key| groups[at(key)].prefetch_bounds());
                near.into_iter().for_each(|key| groups[at(key)].prefetch(prefix(&key.0)));
            }
            groups[at(&keys[0])].insert_all(keys, &hash_of);
        }
    }
}

impl KeyOrder {
    pub(crate) fn new() -> Self {
        Self { groups: (0..GROUPS).map(|_| Group::default()).collect() }
    }

    /// Builds the order of about `len` keys, given in any order by the prefixes of their hashes. O(n log n), in
    /// parallel.
    ///
    /// Holds eight more bytes per key that is not inserted yet. Whole hashes are needed where prefixes are equal, and
    /// once per leaf. Returns `None` if two hashes are equal.
    pub(crate) fn build(
        keys: impl Iterator<Item = (u64, u32)>,
        len: usize,
        hash_of: impl Fn(u32) -> Hash + Sync,
    ) -> Option<Self> {
        // Runs share their first byte, which is evenly spread, and are released as soon as they are inserted.
        let each = len / RUNS;
        let mut runs: Vec<Vec<u64>> = (0..RUNS).map(|_| Vec::with_capacity(each + 8 * each.isqrt())).collect();
        keys.for_each(|(prefix, id)| runs[(prefix >> 56) as usize].push(slot(prefix, id)));
        let built = |mut slots: Vec<u64>| -> Option<Vec<(usize, Group)>> {
            slots.sort_unstable();
            for alike in slots.chunk_by_mut(|a, b| a >> 32 == b >> 32).filter(|alike| alike.len() > 1) {
                alike.sort_by_cached_key(|slot| hash_of(id_of(*slot)));
                if alike.windows(2).any(|pair| hash_of(id_of(pair[0])) == hash_of(id_of(pair[1]))) {
                    return None;
                }
            }
            let of = |slot: &u64| (slot >> (u64::BITS - GROUP_BITS)) as usize;
            let group = |slots: &[u64]| Group(slots.chunks(BUILT).map(|leaf| Leaf::of(leaf, &hash_of)).collect());
            Some(slots.chunk_by(|a, b| of(a) == of(b)).map(|slots| (of(&slots[0]), group(slots))).collect())
        };
        let built: Vec<Vec<(usize, Group)>> = runs.into_par_iter().map(built).collect::<Option<_>>()?;
        let mut key_order = Self::new();
        built.into_iter().flatten().for_each(|(at, group)| key_order.groups[at] = group);
        Some(key_order)
    }

    /// Id with the greatest hash below `hash`.
    pub(crate) fn before(&self, hash: &Hash, hash_of: impl Fn(u32) -> Hash) -> Option<u32> {
        let (below, rest) = self.groups.split_at(group_of(prefix(hash)));
        let leaves = &rest[0].0;
        let at = rest[0].find(hash);
        let in_leaf = leaves.get(at).and_then(|leaf| {
            let last = rank(&leaf.slots, hash, hash_of).checked_sub(1)?;
            Some(id_of(leaf.slots[last]))
        });
        let in_group = || at.checked_sub(1).and_then(|at| leaves[at].slots.last()).map(|slot| id_of(*slot));
        in_leaf.or_else(in_group).or_else(|| below.iter().rev().find_map(Group::last))
    }

    /// Prefetches for three later calls of [`Self::before`], by prefix: one, two and three times
    /// [`KEY_ORDER_LOOKAHEAD`] keys ahead. Returns the likely predecessor of the nearest, if its leaf has it.
    #[inline]
    pub(crate) fn prefetch_predecessors(&self, [near, further, far]: [Option<u64>; 3]) -> Option<u32> {
        let group = |prefix| &self.groups[group_of(prefix)];
        far.into_iter().for_each(|prefix| group(prefix).prefetch_bounds());
        further.into_iter().for_each(|prefix| group(prefix).prefetch(prefix));
        let prefix = near?;
        let slots = group(prefix).near(prefix);
        let rank = slots.partition_point(|slot| slot >> 32 < prefix >> 32);
        rank.checked_sub(1).map(|last| id_of(slots[last]))
    }

    /// Adds an id that is not in the order.
    pub(crate) fn insert(&mut self, id: u32, hash: &Hash, hash_of: impl Fn(u32) -> Hash) {
        self.groups[group_of(prefix(hash))].insert_all(&[(*hash, id)], hash_of);
    }

    /// Divides the insertion of `keys`, given in order and not in the order yet, into at most [`PIECES`] pieces. Any
    /// thread may do any piece, in any order.
    pub(crate) fn pieces<'r>(&'r mut self, mut keys: &'r [Placed]) -> impl Iterator<Item = Piece<'r>> {
        debug_assert!(keys.is_sorted_by(|a, b| a.0 < b.0));
        let each = GROUPS / PIECES;
        self.groups.chunks_mut(each).enumerate().filter_map(move |(at, groups)| {
            let first = at * each;
            let (here, rest) = keys.split_at(keys.partition_point(|(hash, _)| group_of(prefix(hash)) < first + each));
            keys = rest;
            (!here.is_empty()).then_some(Piece { first, groups, keys: here })
        })
    }

    /// Removes an id that is in the order.
    pub(crate) fn remove(&mut self, id: u32, hash: &Hash, hash_of: impl Fn(u32) -> Hash) {
        let group = &mut self.groups[group_of(prefix(hash))];
        let at = group.find(hash);
        let leaf = &mut group.0[at];
        let rank = rank(&leaf.slots, hash, hash_of);
        debug_assert_eq!(leaf.slots.get(rank).map(|slot| id_of(*slot)), Some(id));
        leaf.slots.remove(rank);
        if leaf.slots.is_empty() {
            group.0.remove(at);
        }
    }

    /// Ids whose hashes are `from` or above, in order.
    pub(crate) fn from<'r>(
        &'r self,
        from: &'r Hash,
        hash_of: impl Fn(u32) -> Hash + Copy + 'r,
    ) -> impl Iterator<Item = u32> + 'r {
        let groups = &self.groups[group_of(prefix(from))..];
        let leaves = groups[0].0.iter().skip(groups[0].find(from)).chain(groups[1..].iter().flat_map(|group| &group.0));
        leaves.flat_map(|leaf| leaf.slots.iter().map(|slot| id_of(*slot))).skip_while(move |id| hash_of(*id) < *from)
    }

    /// Bytes of the leaves and of the groups.
    pub(crate) fn memory(&self) -> usize {
        self.groups.iter().map(Group::memory).sum::<usize>() + self.groups.capacity() * size_of::<Group>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _, seq::SliceRandom as _};
    use std::collections::BTreeSet;

    #[test]
    fn equals_a_sorted_set() {
        for seed in 0..12 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            // Many hashes share their first eight bytes.
            let mut hashes: Vec<Hash> = (0..3000u32)
                .map(|i| {
                    let mut hash = [0; 32];
                    // In one group, in neighbouring groups, or in many.
                    hash[0] = if seed % 4 < 2 { rng.random() } else { 0 };
                    hash[1] = if seed % 3 < 2 { rng.random_range(0..40) } else { 0 };
                    hash[6] = if seed % 2 == 0 { rng.random() } else { rng.random_range(0..3) };
                    hash[7] = rng.random_range(0..4);
                    hash[20..24].copy_from_slice(&i.to_be_bytes());
                    hash
                })
                .collect();
            hashes.shuffle(&mut rng);
            let hash_of = |id: u32| hashes[id as usize];
            let (mut key_order, mut model) = (KeyOrder::new(), BTreeSet::<(Hash, u32)>::new());
            for step in 0..9000 {
                let id = rng.random_range(0..hashes.len() as u32);
                let hash = hashes[id as usize];
                if model.remove(&(hash, id)) {
                    key_order.remove(id, &hash, hash_of);
                } else if step % 50 != 0 {
                    model.insert((hash, id));
                    key_order.insert(id, &hash, hash_of);
                } else {
                    // Many at a time, of neighbours or of all; pieces in any order.
                    let (first, count) = (rng.random_range(0..hashes.len()), rng.random_range(0..400));
                    let mut some: Vec<Placed> = (first..hashes.len().min(first + count))
                        .map(|id| (hashes[id], id as u32))
                        .filter(|key| !model.contains(key))
                        .collect();
                    some.sort_unstable();
                    model.extend(&some);
                    let mut pieces: Vec<Piece<'_>> = key_order.pieces(&some).collect();
                    pieces.shuffle(&mut rng);
                    pieces.into_iter().for_each(|piece| piece.insert(hash_of));
                }
                let probe = hashes[rng.random_range(0..hashes.len())];
                let expected = model.range(..(probe, 0)).next_back().map(|(_, id)| *id);
                assert_eq!(key_order.before(&probe, hash_of), expected, "seed {seed} step {step}");
            }
            let full = |leaf: &Leaf| leaf.slots.is_empty() || leaf.slots.len() > LEAF;
            assert!(!key_order.groups.iter().any(|group| group.0.iter().any(full)), "seed {seed}");
            let sorted: Vec<u32> = model.iter().map(|(_, id)| *id).collect();
            let mut keys: Vec<(u64, u32)> = model.iter().map(|(hash, id)| (prefix(hash), *id)).collect();
            keys.shuffle(&mut rng);
            let rebuilt = KeyOrder::build(keys.iter().copied(), keys.len(), hash_of).expect("no key is there twice");
            let mut filled = KeyOrder::new();
            let all: Vec<Placed> = model.iter().copied().collect();
            filled.pieces(&all).for_each(|piece| piece.insert(hash_of));
            keys.extend(keys.first().copied());
            assert!(KeyOrder::build(keys.iter().copied(), 0, hash_of).is_none() || model.is_empty(), "seed {seed}");
            for key_order in [&key_order, &rebuilt, &filled] {
                let from = hashes[0];
                let rest: Vec<u32> = key_order.from(&from, hash_of).collect();
                assert_eq!(rest, model.range((from, 0)..).map(|(_, id)| *id).collect::<Vec<_>>(), "seed {seed}");
                assert_eq!(key_order.from(&[0; 32], hash_of).collect::<Vec<_>>(), sorted);
                for probe in &hashes {
                    let expected = model.range(..(*probe, 0)).next_back().map(|(_, id)| *id);
                    assert_eq!(key_order.before(probe, hash_of), expected, "seed {seed}");
                }
            }
        }
    }
}
