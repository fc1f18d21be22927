//! Roots of tries that are spread over all shards, from the references of their pieces.

use alloy_primitives::B256;
use phalanx_hash_lanes::Lanes;

use super::EMPTY_ROOT;
use crate::{
    grow::NONE,
    hash::{Many, branch_of, extension, leaf, stored_branch},
    nodes::{Leaf, Middle, Node, Piece, Reference, SHARDS, Shard, Top},
    types::Work,
};

/// A top whose pieces changed.
pub(super) struct Fold {
    pub(super) top: Box<Top>,
    /// Changes that the values of lone leaves are from, by piece.
    changed: Vec<(usize, u32)>,
    pub(super) root: B256,
}

/// Tops that are folded together, so that lanes are full.
pub(super) struct Folding<'a, F> {
    pub(super) shards: &'a [Shard; SHARDS],
    pub(super) lanes: Lanes,
    pub(super) work: &'a mut Work,
    /// Writes the value of a leaf: index of the top, shard, leaf, change.
    pub(super) value: F,
}

impl Fold {
    pub(super) const fn new(top: Box<Top>) -> Self {
        Self { top, changed: Vec::new(), root: EMPTY_ROOT }
    }

    /// Replaces a piece. `change` is that of a lone leaf, or [`NONE`].
    pub(super) fn set(&mut self, piece: usize, node: Node, reference: Option<Reference>, change: u32) {
        self.top.pieces[piece] = Piece { node, reference };
        self.top.middles[piece / 16] = None;
        if change != NONE {
            self.changed.push((piece, change));
        }
    }

    fn change(&self, piece: usize) -> u32 {
        self.changed.iter().find(|(changed, _)| *changed == piece).map_or(NONE, |(_, change)| *change)
    }
}

impl<E, F> Folding<'_, F>
where
    F: FnMut(usize, &Shard, &Leaf, u32, &mut Vec<u8>) -> Result<(), E>,
{
    /// Computes the roots of all tops.
    pub(super) fn roots(&mut self, folds: &mut [Fold]) -> Result<(), E> {
        self.middles(folds)?;
        let mut many = Many::new(self.lanes);
        let mut hashed = Vec::new();
        for at in 0..folds.len() {
            let below = folds[at].top.below_root();
            match below[..] {
                [] => folds[at].root = EMPTY_ROOT,
                [(_, Middle::Piece(piece))] => folds[at].root = self.alone(at, &folds[at], piece, 0)?.root(),
                [(nibble, _)] => {
                    let key = first_byte(nibble << 4);
                    let below = folds[at].top.middles[nibble].expect("middles were computed");
                    extension(&key, 0, 1, &below, many.out());
                    self.work.extensions += 1;
                    many.end();
                    hashed.push(at);
                }
                _ => {
                    branch_of(&folds[at].top.middles, many.out());
                    self.work.branches += 1;
                    many.end();
                    hashed.push(at);
                }
            }
            if hashed.len() == Many::LIMIT || at + 1 == folds.len() {
                many.take(self.work, |i, reference| folds[hashed[i]].root = reference.root());
                hashed.clear();
            }
        }
        Ok(())
    }

    /// Computes the references of middles that are not known.
    fn middles(&mut self, folds: &mut [Fold]) -> Result<(), E> {
        let mut many = Many::new(self.lanes);
        let mut hashed = Vec::new();
        for at in 0..folds.len() {
            let below = folds[at].top.below_root();
            for (nibble, middle) in &below {
                if folds[at].top.middles[*nibble].is_some() {
                    continue;
                }
                match *middle {
                    Middle::Piece(piece) if below.len() > 1 => {
                        folds[at].top.middles[*nibble] = Some(self.alone(at, &folds[at], piece, 1)?);
                    }
                    Middle::Branch => {
                        let mut children = [None; 16];
                        let pieces: Vec<usize> = folds[at].top.pieces_below(*nibble).collect();
                        for piece in pieces {
                            let known = folds[at].top.pieces[piece].reference;
                            let reference = known.map_or_else(|| self.alone(at, &folds[at], piece, 2), Ok)?;
                            folds[at].top.pieces[piece].reference = Some(reference);
                            children[piece % 16] = Some(reference);
                        }
                        branch_of(&children, many.out());
                        many.end();
                        self.work.branches += 1;
                        hashed.push((at, *nibble));
                    }
                    Middle::Piece(_) | Middle::Empty => {}
                }
                if hashed.len() == Many::LIMIT {
                    take(&mut many, self.work, &mut hashed, folds);
                }
            }
        }
        take(&mut many, self.work, &mut hashed, folds);
        Ok(())
    }

    /// Reference of a piece that hangs below `at` nibbles.
    fn alone(&mut self, fold: usize, of: &Fold, piece: usize, at: usize) -> Result<Reference, E> {
        let shard = &self.shards[piece];
        let mut many = Many::new(Lanes::One);
        let mut reference = Reference::UNKNOWN;
        match of.top.pieces[piece].node {
            Node::Empty => {}
            Node::Leaf(index) => {
                let found = shard.leaves.get(index);
                let mut value = Vec::new();
                (self.value)(fold, shard, found, of.change(piece), &mut value)?;
                leaf(&found.key, at, &value, many.out());
                many.end();
                self.work.leaves += 1;
                many.take(self.work, |_, hashed| reference = hashed);
            }
            Node::Branch(branch) => {
                stored_branch(shard, branch, many.out());
                many.end();
                self.work.branches += 1;
                many.take(self.work, |_, hashed| reference = hashed);
                let depth = usize::from(shard.branches.head(branch).depth);
                if at < depth {
                    extension(shard.any_key(branch), at, depth, &reference, many.out());
                    many.end();
                    self.work.extensions += 1;
                    many.take(self.work, |_, hashed| reference = hashed);
                }
            }
        }
        Ok(reference)
    }
}

fn take(many: &mut Many, work: &mut Work, hashed: &mut Vec<(usize, usize)>, folds: &mut [Fold]) {
    many.take(work, |i, reference| {
        let (at, nibble) = hashed[i];
        folds[at].top.middles[nibble] = Some(reference);
    });
    hashed.clear();
}

/// A key with this first byte.
pub(crate) fn first_byte(byte: usize) -> B256 {
    let mut key = B256::ZERO;
    key[0] = byte as u8;
    key
}
