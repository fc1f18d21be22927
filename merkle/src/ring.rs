//! All keys in order of their hashes: who stands before a hash.

use std::{cmp::Ordering, collections::BTreeMap};

use phalanx_merkle_proof::Hash;
use rayon::prelude::*;

/// Most keys in a leaf.
const LEAF: usize = 128;

/// Keys in a leaf of a ring that is built at once.
const BUILT: usize = LEAF * 3 / 4;

/// In how many groups those are sorted.
const GROUPS: usize = 256;

/// Ids in order of the hashes of their keys, in leaves of up to 128. About ten bytes per key.
///
/// Leaves are found by whole hashes, so that nobody can make one grow by choosing keys that share a prefix.
///
/// # Invariants
/// A leaf holds the ids whose hashes lie from its bound up to the bound of the next. The first bound is zero. Only the
/// first leaf may be empty.
#[derive(Debug)]
pub(crate) struct Ring {
    leaves: BTreeMap<Hash, Leaf>,
}

/// Four bytes of each hash, then the id.
#[derive(Debug, Default)]
struct Leaf(Vec<u64>);

/// The first eight bytes of a hash.
#[inline]
pub(crate) const fn prefix(hash: &Hash) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *hash;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// A key in a leaf, by the first bytes of its hash.
const fn slot(prefix: u64, id: u32) -> u64 {
    prefix >> 32 << 32 | id as u64
}

const fn id_of(slot: u64) -> u32 {
    slot as u32
}

impl Leaf {
    /// How many hashes of the leaf are below `hash`.
    fn rank(&self, hash: &Hash, hash_of: impl Fn(u32) -> Hash) -> usize {
        let wanted = prefix(hash) >> 32;
        self.0.partition_point(|slot| match (slot >> 32).cmp(&wanted) {
            Ordering::Equal => hash_of(id_of(*slot)) < *hash,
            order => order.is_lt(),
        })
    }

    fn insert(&mut self, rank: usize, slot: u64) {
        if self.0.len() == self.0.capacity() {
            // Little at a time: what is reserved and not used is counted per key.
            self.0.reserve_exact(self.0.len() / 16 + 4);
        }
        self.0.insert(rank, slot);
    }
}

impl Ring {
    pub(crate) fn new() -> Self {
        Self { leaves: BTreeMap::from([([0; 32], Leaf::default())]) }
    }

    /// A ring of keys in any order, about `len` of them, given by the first bytes of their hashes. O(n log n), in parallel.
    /// Beside the ring eight bytes per key that is not in it yet are held. Hashes are asked for where first bytes are alike,
    /// and once per leaf. `None` if two are alike.
    pub(crate) fn build(
        keys: impl Iterator<Item = (u64, u32)>,
        len: usize,
        hash_of: impl Fn(u32) -> Hash + Sync,
    ) -> Option<Self> {
        // By their first byte, which hashes have equally often, so that each group goes as soon as it is in the ring.
        let each = len / GROUPS;
        let mut groups: Vec<Vec<u64>> = (0..GROUPS).map(|_| Vec::with_capacity(each + 8 * each.isqrt())).collect();
        keys.for_each(|(prefix, id)| groups[(prefix >> 56) as usize].push(slot(prefix, id)));
        let sort = |slots: &mut Vec<u64>| -> Option<Vec<Hash>> {
            slots.sort_unstable();
            for alike in slots.chunk_by_mut(|a, b| a >> 32 == b >> 32).filter(|alike| alike.len() > 1) {
                alike.sort_by_cached_key(|slot| hash_of(id_of(*slot)));
                if alike.windows(2).any(|pair| hash_of(id_of(pair[0])) == hash_of(id_of(pair[1]))) {
                    return None;
                }
            }
            Some(slots.chunks(BUILT).map(|leaf| hash_of(id_of(leaf[0]))).collect())
        };
        let bounds: Vec<Vec<Hash>> = groups.par_iter_mut().map(sort).collect::<Option<_>>()?;
        let mut leaves: Vec<(Hash, Leaf)> = Vec::with_capacity(bounds.iter().map(Vec::len).sum());
        for (slots, bounds) in groups.into_iter().zip(bounds) {
            leaves.extend(bounds.into_iter().zip(slots.chunks(BUILT).map(|leaf| Leaf(leaf.to_vec()))));
        }
        match leaves.first_mut() {
            Some((bound, _)) => *bound = [0; 32],
            None => return Some(Self::new()),
        }
        Some(Self { leaves: leaves.into_iter().collect() })
    }

    /// The id with the greatest hash below `hash`.
    pub(crate) fn before(&self, hash: &Hash, hash_of: impl Fn(u32) -> Hash) -> Option<u32> {
        for (_, leaf) in self.leaves.range::<Hash, _>(..=*hash).rev() {
            let rank = leaf.rank(hash, &hash_of);
            if rank > 0 {
                return Some(id_of(leaf.0[rank - 1]));
            }
        }
        None
    }

    /// Adds an id that is not in the ring.
    pub(crate) fn insert(&mut self, id: u32, hash: &Hash, hash_of: impl Fn(u32) -> Hash) {
        let (_, leaf) = self.leaves.range_mut::<Hash, _>(..=*hash).next_back().expect("the first bound is zero");
        let (rank, slot) = (leaf.rank(hash, &hash_of), slot(prefix(hash), id));
        if leaf.0.len() < LEAF {
            leaf.insert(rank, slot);
            return;
        }
        // Keys that come in order, as in a genesis, leave full leaves behind.
        let middle = if rank == LEAF { LEAF } else { LEAF / 2 };
        let mut upper = Leaf(leaf.0[middle..].to_vec());
        leaf.0.truncate(middle);
        leaf.0.shrink_to_fit();
        if rank >= middle {
            upper.insert(rank - middle, slot)
        } else {
            leaf.insert(rank, slot)
        }
        let first = id_of(upper.0[0]);
        let bound = if first == id { *hash } else { hash_of(first) };
        self.leaves.insert(bound, upper);
    }

    /// Removes an id that is in the ring.
    pub(crate) fn remove(&mut self, id: u32, hash: &Hash, hash_of: impl Fn(u32) -> Hash) {
        let (bound, leaf) = self.leaves.range_mut::<Hash, _>(..=*hash).next_back().expect("the first bound is zero");
        let rank = leaf.rank(hash, hash_of);
        debug_assert_eq!(leaf.0.get(rank).map(|slot| id_of(*slot)), Some(id));
        leaf.0.remove(rank);
        if leaf.0.is_empty() && *bound != [0; 32] {
            let bound = *bound;
            self.leaves.remove(&bound);
        }
    }

    /// The ids whose hashes are `from` or above, in order.
    pub(crate) fn from<'r>(
        &'r self,
        from: &'r Hash,
        hash_of: impl Fn(u32) -> Hash + Copy + 'r,
    ) -> impl Iterator<Item = u32> + 'r {
        let first = self.leaves.range::<Hash, _>(..=*from).next_back().map_or([0; 32], |(bound, _)| *bound);
        self.leaves
            .range::<Hash, _>(first..)
            .flat_map(|(_, leaf)| leaf.0.iter().map(|slot| id_of(*slot)))
            .skip_while(move |id| hash_of(*id) < *from)
    }

    /// Bytes of leaves and about those of the tree above them.
    pub(crate) fn memory(&self) -> usize {
        let above = size_of::<(Hash, Leaf)>() * 3 / 2;
        self.leaves.values().map(|leaf| leaf.0.capacity() * size_of::<u64>() + above).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _, seq::SliceRandom as _};
    use std::collections::BTreeSet;

    #[test]
    fn equals_a_sorted_set() {
        for seed in 0..8 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            // Many hashes share their first eight bytes.
            let mut hashes: Vec<Hash> = (0..3000u32)
                .map(|i| {
                    let mut hash = [0; 32];
                    // Sorted in one group, or in many.
                    hash[0] = if seed % 4 < 2 { rng.random() } else { 0 };
                    hash[6] = if seed % 2 == 0 { rng.random() } else { rng.random_range(0..3) };
                    hash[7] = rng.random_range(0..4);
                    hash[20..24].copy_from_slice(&i.to_be_bytes());
                    hash
                })
                .collect();
            hashes.shuffle(&mut rng);
            let hash_of = |id: u32| hashes[id as usize];
            let (mut ring, mut model) = (Ring::new(), BTreeSet::<(Hash, u32)>::new());
            for step in 0..9000 {
                let id = rng.random_range(0..hashes.len() as u32);
                let hash = hashes[id as usize];
                if model.remove(&(hash, id)) {
                    ring.remove(id, &hash, hash_of);
                } else {
                    model.insert((hash, id));
                    ring.insert(id, &hash, hash_of);
                }
                let probe = hashes[rng.random_range(0..hashes.len())];
                let expected = model.range(..(probe, 0)).next_back().map(|(_, id)| *id);
                assert_eq!(ring.before(&probe, hash_of), expected, "seed {seed} step {step}");
            }
            let sorted: Vec<u32> = model.iter().map(|(_, id)| *id).collect();
            let mut keys: Vec<(u64, u32)> = model.iter().map(|(hash, id)| (prefix(hash), *id)).collect();
            keys.shuffle(&mut rng);
            let rebuilt = Ring::build(keys.iter().copied(), keys.len(), hash_of).expect("no key is there twice");
            keys.extend(keys.first().copied());
            assert!(Ring::build(keys.iter().copied(), 0, hash_of).is_none() || model.is_empty(), "seed {seed}");
            for ring in [&ring, &rebuilt] {
                let from = hashes[0];
                let rest: Vec<u32> = ring.from(&from, hash_of).collect();
                assert_eq!(rest, model.range((from, 0)..).map(|(_, id)| *id).collect::<Vec<_>>(), "seed {seed}");
                assert_eq!(ring.from(&[0; 32], hash_of).collect::<Vec<_>>(), sorted);
                for probe in &hashes {
                    let expected = model.range(..(*probe, 0)).next_back().map(|(_, id)| *id);
                    assert_eq!(ring.before(probe, hash_of), expected, "seed {seed}");
                }
            }
        }
    }
}
