//! A trie that is opened node by node, on the way to its keys only.

use alloy_primitives::{B256, keccak256};
use alloy_rlp::{Decodable as _, EMPTY_STRING_CODE};
use alloy_trie::{
    EMPTY_ROOT_HASH, Nibbles, TrieMask,
    nodes::{BranchNodeRef, ExtensionNodeRef, LeafNodeRef, RlpNode, TrieNode},
};

use super::{
    source::{Nodes, Owner, Place},
    state::PartialError,
};

/// A node and what is below it.
#[derive(Clone, Debug)]
pub(super) enum Subtrie {
    Empty,
    /// A node that no key has led to.
    Closed(RlpNode),
    Leaf {
        path: Nibbles,
        value: Vec<u8>,
    },
    /// A branch below some nibbles.
    Extension {
        path: Nibbles,
        below: Box<Self>,
    },
    Branch(Box<[Self; 16]>),
}

/// Way to a key: the nodes' source, and the nibbles that lie behind.
pub(super) struct Way<'a, N> {
    pub(super) nodes: &'a mut N,
    pub(super) owner: Owner,
    pub(super) key: Nibbles,
}

impl<N: Nodes> Way<'_, N> {
    fn rest(&self, at: usize) -> Nibbles {
        self.key.slice(at..)
    }

    /// Nibble of the key, which does not end before its leaf.
    fn nibble(&self, at: usize) -> Result<usize, PartialError> {
        self.key.get(at).map(usize::from).ok_or(PartialError::Malformed { owner: self.owner })
    }

    /// Opens a node below `path`.
    fn open(&mut self, subtrie: &mut Subtrie, path: Nibbles) -> Result<(), PartialError> {
        let Subtrie::Closed(node) = subtrie else { return Ok(()) };
        let owner = self.owner;
        let malformed = || PartialError::Malformed { owner };
        let rlp = match node.as_hash() {
            None => node.as_slice().to_vec(),
            Some(hash) => {
                let place = Place { owner, path };
                self.nodes.node(&hash, &place).ok_or(PartialError::Absent { owner, hash })?.to_vec()
            }
        };
        *subtrie = match TrieNode::decode(&mut &rlp[..]).map_err(|_| malformed())? {
            TrieNode::EmptyRoot => Subtrie::Empty,
            TrieNode::Leaf(leaf) => Subtrie::Leaf { path: leaf.key, value: leaf.value },
            TrieNode::Extension(extension) if !extension.key.is_empty() => {
                Subtrie::Extension { path: extension.key, below: Box::new(Subtrie::Closed(extension.child)) }
            }
            TrieNode::Extension(_) => return Err(malformed()),
            TrieNode::Branch(branch) => {
                let mut children = [const { Subtrie::Empty }; 16];
                for (nibble, child) in branch.as_ref().children() {
                    if let Some(child) = child {
                        children[usize::from(nibble)] = Subtrie::Closed(child.clone());
                    }
                }
                Subtrie::Branch(Box::new(children))
            }
        };
        Ok(())
    }

    /// Value of the key below the first `at` nibbles.
    pub(super) fn get(&mut self, mut subtrie: &mut Subtrie, mut at: usize) -> Result<Option<Vec<u8>>, PartialError> {
        loop {
            self.open(subtrie, self.key.slice(..at))?;
            subtrie = match subtrie {
                Subtrie::Empty | Subtrie::Closed(_) => return Ok(None),
                Subtrie::Leaf { path, value } => return Ok((*path == self.rest(at)).then(|| value.clone())),
                Subtrie::Extension { path, below } => {
                    if !self.rest(at).starts_with(path) {
                        return Ok(None);
                    }
                    at += path.len();
                    below
                }
                Subtrie::Branch(children) => {
                    let nibble = self.nibble(at)?;
                    at += 1;
                    &mut children[nibble]
                }
            };
        }
    }

    /// Sets the value of the key below the first `at` nibbles.
    pub(super) fn put(&mut self, subtrie: &mut Subtrie, at: usize, value: Vec<u8>) -> Result<(), PartialError> {
        self.open(subtrie, self.key.slice(..at))?;
        let rest = self.rest(at);
        let split = |path: &Nibbles, below: Subtrie| {
            let shared = path.common_prefix_length(&rest);
            let (own, other) = (path.get(shared), rest.get(shared));
            let (Some(own), Some(other)) = (own, other) else { return None };
            let mut children = [const { Subtrie::Empty }; 16];
            children[usize::from(own)] = below.below(path.slice(shared + 1..));
            children[usize::from(other)] = Subtrie::Leaf { path: rest.slice(shared + 1..), value: value.clone() };
            Some(Subtrie::Branch(Box::new(children)).below(rest.slice(..shared)))
        };
        let malformed = PartialError::Malformed { owner: self.owner };
        match subtrie {
            Subtrie::Empty | Subtrie::Closed(_) => *subtrie = Subtrie::Leaf { path: rest, value },
            Subtrie::Leaf { path, value: held } if *path == rest => *held = value,
            Subtrie::Leaf { path, value: held } => {
                let leaf = Subtrie::Leaf { path: Nibbles::new(), value: core::mem::take(held) };
                *subtrie = split(path, leaf).ok_or(malformed)?;
            }
            Subtrie::Extension { path, below } if rest.starts_with(path) => {
                return self.put(below, at + path.len(), value);
            }
            Subtrie::Extension { path, below } => {
                let below = core::mem::replace(&mut **below, Subtrie::Empty);
                *subtrie = split(path, below).ok_or(malformed)?;
            }
            Subtrie::Branch(children) => {
                let nibble = self.nibble(at)?;
                return self.put(&mut children[nibble], at + 1, value);
            }
        }
        Ok(())
    }

    /// Removes the key below the first `at` nibbles, if it is there.
    pub(super) fn remove(&mut self, subtrie: &mut Subtrie, at: usize) -> Result<(), PartialError> {
        self.open(subtrie, self.key.slice(..at))?;
        let rest = self.rest(at);
        match subtrie {
            Subtrie::Leaf { path, .. } if *path == rest => *subtrie = Subtrie::Empty,
            Subtrie::Empty | Subtrie::Closed(_) | Subtrie::Leaf { .. } => {}
            Subtrie::Extension { path, below } => {
                if rest.starts_with(path) {
                    self.remove(below, at + path.len())?;
                    let below = core::mem::replace(&mut **below, Subtrie::Empty);
                    *subtrie = below.below(*path);
                }
            }
            Subtrie::Branch(children) => {
                let nibble = self.nibble(at)?;
                self.remove(&mut children[nibble], at + 1)?;
                let mut left = children.iter().enumerate().filter(|(_, child)| !matches!(child, Subtrie::Empty));
                match (left.next(), left.next()) {
                    (None, _) => *subtrie = Subtrie::Empty,
                    (Some((only, _)), None) => {
                        let mut nibbles = self.key.slice(..at);
                        nibbles.push(only as u8);
                        // The only child takes the branch's place, and what it is says how.
                        self.open(&mut children[only], nibbles)?;
                        let child = core::mem::replace(&mut children[only], Subtrie::Empty);
                        *subtrie = child.below(Nibbles::from_nibbles_unchecked([only as u8]));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

impl Subtrie {
    /// A trie by its root.
    pub(super) fn of_root(root: &B256) -> Self {
        if *root == EMPTY_ROOT_HASH { Self::Empty } else { Self::Closed(RlpNode::word_rlp(root)) }
    }

    /// The subtrie below some nibbles more.
    fn below(self, path: Nibbles) -> Self {
        match self {
            subtrie if path.is_empty() => subtrie,
            Self::Empty => Self::Empty,
            Self::Leaf { path: rest, value } => Self::Leaf { path: path.join(&rest), value },
            Self::Extension { path: rest, below } => Self::Extension { path: path.join(&rest), below },
            subtrie @ (Self::Branch(_) | Self::Closed(_)) => Self::Extension { path, below: Box::new(subtrie) },
        }
    }

    /// Root of the trie whose topmost node this is.
    pub(super) fn root(&self) -> B256 {
        match self {
            Self::Empty => EMPTY_ROOT_HASH,
            Self::Closed(node) => node.as_hash().unwrap_or_else(|| keccak256(node.as_slice())),
            _ => {
                let mut rlp = Vec::new();
                self.node(&mut rlp);
                keccak256(&rlp)
            }
        }
    }

    /// Reference to the topmost node, whose RLP is left in `rlp` unless it is closed.
    fn node(&self, rlp: &mut Vec<u8>) -> RlpNode {
        rlp.clear();
        match self {
            Self::Empty => {
                rlp.push(EMPTY_STRING_CODE);
                RlpNode::from_rlp(rlp)
            }
            Self::Closed(node) => node.clone(),
            Self::Leaf { path, value } => LeafNodeRef::new(path, value).rlp(rlp),
            Self::Extension { path, below } => {
                let below = below.node(rlp);
                rlp.clear();
                ExtensionNodeRef::new(path, &below).rlp(rlp)
            }
            Self::Branch(children) => {
                let (mut stack, mut mask) = (Vec::with_capacity(16), TrieMask::default());
                for (nibble, child) in (0..).zip(&**children) {
                    if !matches!(child, Self::Empty) {
                        stack.push(child.node(rlp));
                        mask.set_bit(nibble);
                    }
                }
                rlp.clear();
                BranchNodeRef::new(&stack, mask).rlp(rlp)
            }
        }
    }
}
