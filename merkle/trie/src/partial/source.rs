//! Source of the nodes of a partial state.

use alloy_primitives::{B256, Bytes, keccak256, map::B256Map};
use alloy_trie::Nibbles;

/// Trie that a node belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The accounts.
    State,
    /// The storage of the account with this hashed address.
    Storage(B256),
}

/// Place of a node.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Trie.
    pub owner: Owner,
    /// Nibbles above the node.
    pub path: Nibbles,
}

/// Source of nodes by their hashes.
pub trait Nodes {
    /// The node with this hash, which is needed at `place`, in RLP; `None` if it is not known.
    ///
    /// The caller does not hash it again: a source returns nodes that it has hashed, or made.
    fn node(&mut self, hash: &B256, place: &Place) -> Option<Bytes>;
}

/// Nodes of a witness.
impl Nodes for B256Map<Bytes> {
    fn node(&mut self, hash: &B256, _: &Place) -> Option<Bytes> {
        self.get(hash).cloned()
    }
}

/// Nodes by their hashes.
pub(super) fn by_hash(nodes: impl IntoIterator<Item = Bytes>) -> B256Map<Bytes> {
    nodes.into_iter().map(|node| (keccak256(&node), node)).collect()
}
