//! All keys in order of their hashes: who stands before a hash.

use std::collections::BTreeMap;

use phalanx_merkle_proof::Hash;

/// Most keys in a leaf.
const LEAF: usize = 128;

/// Ids in order of the hashes of their keys, in leaves of up to 128. About 20 bytes per key.
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

#[derive(Debug, Default)]
struct Leaf {
    prefixes: Vec<u64>,
    ids: Vec<u32>,
}

/// The first eight bytes of a hash.
#[inline]
pub(crate) const fn prefix(hash: &Hash) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *hash;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

impl Leaf {
    /// How many hashes of the leaf are below `hash`.
    fn rank<'h>(&self, hash: &Hash, hash_of: impl Fn(u32) -> &'h Hash) -> usize {
        let wanted = prefix(hash);
        let mut at = self.prefixes.partition_point(|prefix| *prefix < wanted);
        while at < self.ids.len() && self.prefixes[at] == wanted && hash_of(self.ids[at]) < hash {
            at += 1;
        }
        at
    }

    fn split_off(&mut self, at: usize) -> Self {
        Self { prefixes: self.prefixes.split_off(at), ids: self.ids.split_off(at) }
    }
}

impl Ring {
    pub(crate) fn new() -> Self {
        Self { leaves: BTreeMap::from([([0; 32], Leaf::default())]) }
    }

    /// A ring of `ids`, which are in order of their hashes.
    pub(crate) fn from_sorted<'h>(ids: &[u32], hash_of: impl Fn(u32) -> &'h Hash) -> Self {
        let mut ring = Self::new();
        for ids in ids.chunks(LEAF * 3 / 4) {
            let bound =
                if ring.leaves.len() == 1 && ring.leaves[&[0; 32]].ids.is_empty() { [0; 32] } else { *hash_of(ids[0]) };
            let prefixes = ids.iter().map(|id| prefix(hash_of(*id))).collect();
            ring.leaves.insert(bound, Leaf { prefixes, ids: ids.to_vec() });
        }
        ring
    }

    /// The id with the greatest hash below `hash`.
    pub(crate) fn before<'h>(&self, hash: &Hash, hash_of: impl Fn(u32) -> &'h Hash) -> Option<u32> {
        for (_, leaf) in self.leaves.range::<Hash, _>(..=*hash).rev() {
            let rank = leaf.rank(hash, &hash_of);
            if rank > 0 {
                return Some(leaf.ids[rank - 1]);
            }
        }
        None
    }

    /// Adds an id that is not in the ring.
    pub(crate) fn insert<'h>(&mut self, id: u32, hash: &Hash, hash_of: impl Fn(u32) -> &'h Hash) {
        let (_, leaf) = self.leaves.range_mut::<Hash, _>(..=*hash).next_back().expect("the first bound is zero");
        let rank = leaf.rank(hash, &hash_of);
        if leaf.ids.len() < LEAF {
            leaf.prefixes.insert(rank, prefix(hash));
            leaf.ids.insert(rank, id);
            return;
        }
        // Keys that come in order, as in a genesis, leave full leaves behind.
        let middle = if rank == LEAF { LEAF } else { LEAF / 2 };
        let mut upper = leaf.split_off(middle);
        let into = if rank >= middle { (&mut upper, rank - middle) } else { (leaf, rank) };
        into.0.prefixes.insert(into.1, prefix(hash));
        into.0.ids.insert(into.1, id);
        let bound = if upper.ids[0] == id { *hash } else { *hash_of(upper.ids[0]) };
        self.leaves.insert(bound, upper);
    }

    /// Removes an id that is in the ring.
    pub(crate) fn remove<'h>(&mut self, id: u32, hash: &Hash, hash_of: impl Fn(u32) -> &'h Hash) {
        let (bound, leaf) = self.leaves.range_mut::<Hash, _>(..=*hash).next_back().expect("the first bound is zero");
        let rank = leaf.rank(hash, hash_of);
        debug_assert_eq!(leaf.ids.get(rank), Some(&id));
        leaf.prefixes.remove(rank);
        leaf.ids.remove(rank);
        if leaf.ids.is_empty() && *bound != [0; 32] {
            let bound = *bound;
            self.leaves.remove(&bound);
        }
    }

    /// The ids whose hashes are `from` or above, in order.
    pub(crate) fn from<'r, 'h: 'r>(
        &'r self,
        from: &'r Hash,
        hash_of: impl Fn(u32) -> &'h Hash + Copy + 'r,
    ) -> impl Iterator<Item = u32> + 'r {
        let first = self.leaves.range::<Hash, _>(..=*from).next_back().map_or([0; 32], |(bound, _)| *bound);
        self.leaves
            .range::<Hash, _>(first..)
            .flat_map(|(_, leaf)| leaf.ids.iter().copied())
            .skip_while(move |id| hash_of(*id) < from)
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
                    hash[6] = if seed % 2 == 0 { rng.random() } else { rng.random_range(0..3) };
                    hash[7] = rng.random_range(0..4);
                    hash[20..24].copy_from_slice(&i.to_be_bytes());
                    hash
                })
                .collect();
            hashes.shuffle(&mut rng);
            let hash_of = |id: u32| &hashes[id as usize];
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
            let rebuilt = Ring::from_sorted(&sorted, hash_of);
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
