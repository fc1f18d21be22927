//! The levels above the twigs of one state, and the digests beside a chunk's path.

use phalanx_merkle_proof::{EMPTY, Hash, HashFn, Shape, TWIG_LEVEL};

/// Neighbouring nodes of one level; all others are empty.
#[derive(Clone, Debug)]
struct Level {
    first: u64,
    nodes: Vec<Hash>,
}

impl Level {
    /// Level above, which is level `level` of the tree.
    fn lift(&self, hash: HashFn, level: u8) -> Self {
        let odd = self.first % 2;
        let mut children = Vec::with_capacity(self.nodes.len() + 1);
        children.extend((0..odd).map(|_| EMPTY));
        children.extend_from_slice(&self.nodes);
        let mut nodes = vec![EMPTY; children.len().div_ceil(2)];
        hash.nodes(level, &children, &mut nodes);
        Self { first: self.first / 2, nodes }
    }

    fn node(&self, index: u64) -> Hash {
        let at = index.checked_sub(self.first).and_then(|at| self.nodes.get(usize::try_from(at).ok()?));
        at.copied().unwrap_or(EMPTY)
    }
}

/// All levels from the twigs up. Takes 64 bytes per twig.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    levels: Vec<Level>,
}

impl Levels {
    /// Hashes the levels above the digests of all twigs in use.
    pub(crate) fn new(hash: HashFn, shape: &Shape, twigs: Vec<Hash>) -> Self {
        let mut levels = vec![Level { first: shape.first_twig(), nodes: twigs }];
        for level in TWIG_LEVEL + 1..=shape.top_level() {
            let above = levels[levels.len() - 1].lift(hash, level);
            levels.push(above);
        }
        Self { levels }
    }

    /// Digest above all twigs.
    pub(crate) fn top(&self) -> Hash {
        self.levels[self.levels.len() - 1].node(0)
    }

    /// Digests beside the path from a node to the top, from below; those of empty nodes are left out.
    pub(crate) fn beside(&self, shape: &Shape, level: u8, index: u64) -> Vec<Hash> {
        path(shape, level, index)
            .map(|(level, beside)| self.levels[usize::from(level - TWIG_LEVEL)].node(beside))
            .collect()
    }
}

/// Nodes beside the path from a node to the top, from below, that are not empty.
pub(super) fn path(shape: &Shape, level: u8, index: u64) -> impl Iterator<Item = (u8, u64)> {
    let all = (level..shape.top_level()).map(move |at| (at, (index >> (at - level)) ^ 1));
    all.filter(|(level, beside)| !shape.is_empty(*level, *beside))
}

/// Digest `levels` levels above neighbouring twigs, all of which lie below one node.
pub(super) fn fold(hash: HashFn, first: u64, twigs: Vec<Hash>, levels: u8) -> Hash {
    let mut level = Level { first, nodes: twigs };
    for up in 1..=levels {
        level = level.lift(hash, TWIG_LEVEL + up);
    }
    level.nodes.first().copied().unwrap_or(EMPTY)
}
