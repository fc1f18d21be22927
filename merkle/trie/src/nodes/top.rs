//! The top two levels of a trie whose nodes are in all shards.
//!
//! ```text
//! root: nibble 0 ──► 16 middles: nibble 1 ──► 256 pieces, each a subtrie of one shard
//! ```
//!
//! A middle is a branch if two of its pieces or more have nodes. Otherwise the only one takes its place, and likewise
//! above: branches have two children or more.

use super::{
    node::{Node, Reference},
    shard::SHARDS,
};

/// Top of a trie: its 256 pieces, and what is known of the branches above them.
#[derive(Clone, Debug)]
pub(crate) struct Top {
    pub(crate) pieces: [Piece; SHARDS],
    /// References of the middles, as children of a branch at the root, where they are known.
    pub(crate) middles: [Option<Reference>; 16],
}

/// Subtrie of all keys with one first byte.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Piece {
    pub(crate) node: Node,
    /// Reference as a child of a branch at nibble 1, where it is known.
    pub(crate) reference: Option<Reference>,
}

/// Content below one nibble of the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Middle {
    Empty,
    /// The piece that is alone there.
    Piece(usize),
    Branch,
}

impl Top {
    pub(crate) const EMPTY: Self =
        Self { pieces: [Piece { node: Node::Empty, reference: None }; SHARDS], middles: [None; 16] };

    /// Content below a nibble of the root.
    pub(crate) fn middle(&self, nibble: usize) -> Middle {
        let mut pieces = self.pieces_below(nibble);
        match (pieces.next(), pieces.next()) {
            (None, _) => Middle::Empty,
            (Some(piece), None) => Middle::Piece(piece),
            _ => Middle::Branch,
        }
    }

    /// Pieces with nodes below a nibble of the root.
    pub(crate) fn pieces_below(&self, nibble: usize) -> impl Iterator<Item = usize> {
        (16 * nibble..16 * nibble + 16).filter(|piece| self.pieces[*piece].node != Node::Empty)
    }

    /// Content below the root, by nibble, without empty ones.
    pub(crate) fn below_root(&self) -> Vec<(usize, Middle)> {
        let all = (0..16).map(|nibble| (nibble, self.middle(nibble)));
        all.filter(|(_, middle)| *middle != Middle::Empty).collect()
    }
}
