//! The levels above the twigs: one flat vector per level, so that a node's place is arithmetic.

use phalanx_merkle_proof::{EMPTY, Hash, HashFn, TWIG_LEVEL, upper_levels};

use crate::par;

/// All digests above the twigs; `levels[0]` are the twigs', the last level has one node.
#[derive(Debug, Default)]
pub(crate) struct Upper {
    levels: Vec<Vec<Hash>>,
}

/// What a change of twigs changes above them, level by level as `(index, digest)`, indices ascending.
#[derive(Debug)]
pub(crate) struct UpperChange {
    levels: Vec<Vec<(u64, Hash)>>,
    /// The digest above all twigs.
    pub(crate) top: Hash,
}

impl Upper {
    /// The digest `up` levels above the twigs, unless that subtree is empty.
    pub(crate) fn node(&self, up: usize, index: u64) -> Option<&Hash> {
        self.levels.get(up)?.get(usize::try_from(index).ok()?)
    }

    pub(crate) fn top(&self) -> Hash {
        self.levels.last().and_then(|level| level.first()).copied().unwrap_or(EMPTY)
    }

    /// What the tree over `twigs` twigs becomes when the twigs in `changed` (ascending, new ones among them) do. Hashes
    /// every dirty node once.
    pub(crate) fn change(&self, hash: HashFn, twigs: u64, changed: Vec<(u64, Hash)>) -> UpperChange {
        if changed.is_empty() {
            return UpperChange { levels: Vec::new(), top: self.top() };
        }
        let mut levels = vec![changed];
        for up in 0..upper_levels(twigs) {
            let dirty = &levels[up];
            let pairs: Vec<&[(u64, Hash)]> = dirty.chunk_by(|a, b| a.0 / 2 == b.0 / 2).collect();
            let parents = par::map(&pairs, 60, |pair| {
                let parent = pair[0].0 / 2;
                let child = |index| {
                    let fresh = pair.iter().find(|(at, _)| *at == index).map(|(_, digest)| digest);
                    fresh.or_else(|| self.node(up, index)).unwrap_or(&EMPTY)
                };
                (parent, hash.node(TWIG_LEVEL + 1 + up as u8, child(2 * parent), child(2 * parent + 1)))
            });
            levels.push(parents);
        }
        // The last level has one node, and every change reaches it. A smaller tree's top is a node of a larger tree.
        let top = levels.last().and_then(|level| level.first()).map_or(EMPTY, |(_, digest)| *digest);
        UpperChange { levels, top }
    }

    pub(crate) fn apply(&mut self, change: UpperChange) {
        for (up, nodes) in change.levels.into_iter().enumerate() {
            if self.levels.len() == up {
                self.levels.push(Vec::new());
            }
            let level = &mut self.levels[up];
            for (index, digest) in nodes {
                let index = index as usize;
                if index >= level.len() {
                    level.resize(index + 1, EMPTY);
                }
                level[index] = digest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};

    fn naive(hash: HashFn, twigs: &[Hash]) -> Hash {
        let mut level = twigs.to_vec();
        level.resize(twigs.len().next_power_of_two(), EMPTY);
        let mut at = TWIG_LEVEL;
        while level.len() > 1 {
            at += 1;
            level = level.chunks(2).map(|pair| hash.node(at, &pair[0], &pair[1])).collect();
        }
        level[0]
    }

    #[test]
    fn incremental_equals_full_at_every_size() {
        for seed in 0..4 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let hash = HashFn::Blake3;
            let (mut upper, mut twigs) = (Upper::default(), Vec::<Hash>::new());
            while twigs.len() < 140 {
                let mut changed: Vec<(u64, Hash)> = Vec::new();
                for (index, twig) in twigs.iter_mut().enumerate() {
                    if rng.random_bool(0.1) {
                        *twig = rng.random();
                        changed.push((index as u64, *twig));
                    }
                }
                for _ in 0..rng.random_range(0..4) {
                    twigs.push(rng.random());
                    changed.push((twigs.len() as u64 - 1, twigs[twigs.len() - 1]));
                }
                if twigs.is_empty() {
                    continue;
                }
                let change = upper.change(hash, twigs.len() as u64, changed);
                assert_eq!(change.top, naive(hash, &twigs), "seed {seed}, {} twigs", twigs.len());
                upper.apply(change);
                assert_eq!(upper.top(), naive(hash, &twigs), "seed {seed}, {} twigs", twigs.len());
            }
        }
    }
}
