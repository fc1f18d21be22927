//! RLP of nodes (Yellow Paper, appendix D).

use alloy_primitives::{B256, keccak256};

use super::rlp::{Path, PathOf, list, string, string_len};
use crate::nodes::{Reference, Shard};

/// An empty string: a child or a value that is not there.
const EMPTY: u8 = 0x80;

/// Writes a leaf whose path begins after `at` nibbles; `value` is what the leaf holds.
pub(crate) fn leaf(key: &B256, at: usize, value: &[u8], out: &mut Vec<u8>) {
    let path = Path::of_leaf(key, at);
    list(string_len(path.bytes()) + string_len(value), out);
    string(path.bytes(), out);
    string(value, out);
}

/// Writes an extension over the nibbles `at..depth` of `key`.
pub(crate) fn extension(key: &B256, at: usize, depth: usize, below: &Reference, out: &mut Vec<u8>) {
    let path = Path::new(PathOf::Extension, key, at, depth);
    list(string_len(path.bytes()) + below.len(), out);
    string(path.bytes(), out);
    below.write(out);
}

/// Writes a branch of these children, by nibble.
pub(crate) fn branch_of(children: &[Option<Reference>; 16], out: &mut Vec<u8>) {
    let len: usize = children.iter().map(|child| child.map_or(1, |child| child.len())).sum();
    list(len + 1, out);
    for child in children {
        match child {
            Some(child) => child.write(out),
            None => out.push(EMPTY),
        }
    }
    out.push(EMPTY);
}

/// Writes a branch of a shard.
pub(crate) fn stored_branch(shard: &Shard, branch: u32, out: &mut Vec<u8>) {
    let branches = &shard.branches;
    let head = branches.head(branch);
    if head.is_hashed() {
        let references = branches.references(branch, head);
        let len = 33 * references.len() + (16 - references.len()) + 1;
        list(len, out);
        let start = out.len();
        out.resize(start + len, EMPTY);
        let (mut rest, mut next) = (&mut out[start..], 0);
        for (nibble, reference) in head.nibbles().zip(references) {
            rest = &mut rest[nibble - next..];
            let (child, after) = rest.split_at_mut(33);
            child[0] = EMPTY + 32;
            child[1..].copy_from_slice(reference);
            (rest, next) = (after, nibble + 1);
        }
        return;
    }
    let mut children = [None; 16];
    for nibble in head.nibbles() {
        children[nibble] = Some(branches.reference(branch, head, nibble));
    }
    branch_of(&children, out);
}

/// Reference to a node as its parent encodes it.
pub(crate) fn reference_of(rlp: &[u8]) -> Reference {
    if rlp.len() < 32 { Reference::inlined(rlp) } else { Reference::hashed(keccak256(rlp)) }
}
