//! The levels above the twigs: one flat sequence per level, so that the place of a node is arithmetic.

use phalanx_merkle_proof::{EMPTY, Hash, HashFn, Shape, TWIG_LEVEL};

use super::span::Span;
use crate::parallel::Par;

/// Nodes that are hashed together.
const BATCH: usize = 32;

/// All digests from the twigs up that are not empty; `levels[0]` holds the twigs'.
#[derive(Debug, Default)]
pub(crate) struct Upper {
    levels: Vec<Span<Hash>>,
}

/// Changed digests per level as `(index, digest)`, indices ascending; or the digests before the change.
pub(crate) type UpperPatch = Vec<Vec<(u64, Hash)>>;

/// Node of a patch, `up` levels above the twigs.
pub(crate) fn patched(patch: &UpperPatch, up: usize, index: u64) -> Option<&Hash> {
    let level = patch.get(up)?;
    level.binary_search_by_key(&index, |(index, _)| *index).ok().map(|at| &level[at].1)
}

/// Computes how changed twigs (ascending, new ones included) change the tree of `shape`: the patch, and the top digest.
///
/// `node` gives the digests before. Every dirty node is hashed once.
pub(crate) fn change(
    par: Par<'_>,
    hash: HashFn,
    shape: &Shape,
    changed: Vec<(u64, Hash)>,
    node: impl Fn(usize, u64) -> Hash + Sync,
) -> (UpperPatch, Hash) {
    let mut levels = vec![changed];
    let top = usize::from(shape.top_level() - TWIG_LEVEL);
    for up in 0..top {
        let dirty = &levels[up];
        let pairs: Vec<&[(u64, Hash)]> = dirty.chunk_by(|a, b| a.0 / 2 == b.0 / 2).collect();
        let some: Vec<&[&[(u64, Hash)]]> = pairs.chunks(BATCH).collect();
        let parents = par.map(&some, BATCH * 60, |pairs| {
            let (mut children, mut parents) = ([EMPTY; 2 * BATCH], [EMPTY; BATCH]);
            for (pair, children) in pairs.iter().zip(children.as_chunks_mut::<2>().0) {
                for (child, index) in children.iter_mut().zip(pair[0].0 / 2 * 2..) {
                    let fresh = pair.iter().find(|(at, _)| *at == index).map(|(_, digest)| *digest);
                    *child = fresh.unwrap_or_else(|| node(up, index));
                }
            }
            let level = TWIG_LEVEL + 1 + up as u8;
            hash.nodes(level, &children[..2 * pairs.len()], &mut parents[..pairs.len()]);
            pairs.iter().zip(parents).map(|(pair, digest)| (pair[0].0 / 2, digest)).collect::<Vec<_>>()
        });
        levels.push(parents.concat());
    }
    // Every change reaches the top. The top of a smaller tree is a node of a larger tree.
    let digest = levels[top].first().map_or_else(|| node(top, 0), |(_, digest)| *digest);
    (levels, digest)
}

impl Upper {
    /// Digest `up` levels above the twigs.
    pub(crate) fn node(&self, up: usize, index: u64) -> Hash {
        self.levels.get(up).and_then(|level| level.get(index)).copied().unwrap_or(EMPTY)
    }

    pub(crate) fn memory(&self) -> usize {
        self.levels.iter().map(Span::memory).sum()
    }

    /// Applies a patch that leads to `shape`, and replaces it by the patch that undoes it.
    pub(crate) fn apply(&mut self, patch: &mut UpperPatch, shape: &Shape) {
        for (up, nodes) in patch.iter_mut().enumerate() {
            if self.levels.len() == up {
                self.levels.push(Span::new());
            }
            for (index, digest) in nodes {
                *digest = self.levels[up].set(*index, *digest, EMPTY).unwrap_or(EMPTY);
            }
        }
        for (up, level) in self.levels.iter_mut().enumerate() {
            let (first, twigs) = (shape.first_twig() >> up, shape.twigs());
            level.trim(first, (twigs.saturating_sub(1) >> up) + 1, |_, _| ());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_merkle_proof::TWIG_LEAVES;
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
    fn incremental_hashing_equals_full_hashing_and_is_undone_by_its_patch() {
        for seed in 0..6 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let hash = HashFn::Blake3;
            let (mut upper, mut twigs, mut first) = (Upper::default(), Vec::<Hash>::new(), 0usize);
            let mut back: Vec<(UpperPatch, Shape, Vec<Hash>)> = Vec::new();
            let mut shape = Shape::default();
            while twigs.len() < 140 {
                let before = (shape, twigs.clone());
                let mut changed: Vec<(u64, Hash)> = Vec::new();
                let fallen = rng.random_range(0..4);
                for (index, twig) in twigs.iter_mut().enumerate().skip(first) {
                    if index < first + fallen {
                        *twig = EMPTY;
                        changed.push((index as u64, EMPTY));
                    } else if rng.random_bool(0.1) {
                        *twig = rng.random();
                        changed.push((index as u64, *twig));
                    }
                }
                first = (first + fallen).min(twigs.len());
                for _ in 0..rng.random_range(1..4) {
                    twigs.push(rng.random());
                    changed.push((twigs.len() as u64 - 1, twigs[twigs.len() - 1]));
                }
                let leaves = TWIG_LEAVES as u64;
                shape = Shape { next_sn: twigs.len() as u64 * leaves, floor: first as u64 * leaves, active: 0 };
                let (mut patch, top) =
                    change(Par::UNOBSERVED, hash, &shape, changed, |up, index| upper.node(up, index));
                assert_eq!(top, naive(hash, &twigs), "seed {seed}");
                upper.apply(&mut patch, &shape);
                assert_eq!(upper.node(usize::from(shape.top_level() - TWIG_LEVEL), 0), top, "seed {seed}");
                back.push((patch, before.0, before.1));
            }
            while let Some((mut patch, shape, twigs)) = back.pop() {
                upper.apply(&mut patch, &shape);
                if !twigs.is_empty() {
                    let top = usize::from(shape.top_level() - TWIG_LEVEL);
                    assert_eq!(upper.node(top, 0), naive(hash, &twigs), "seed {seed}");
                    for (index, twig) in twigs.iter().enumerate() {
                        assert_eq!(upper.node(0, index as u64), *twig, "seed {seed}");
                    }
                }
            }
        }
    }
}
