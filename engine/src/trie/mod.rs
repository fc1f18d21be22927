//! Root of an ordered trie (receipts, transactions): subtries are hashed in parallel, and many nodes at once.

pub(crate) mod rlp;

use alloy_primitives::{B256, Bytes};
use alloy_trie::{
    EMPTY_ROOT_HASH, HashBuilder, Nibbles,
    proof::{ProofRetainer, verify_proof},
    root::ordered_trie_root_with_encoder,
};
use core::ops::Range;
use phalanx_hash_lanes::keccak256_many;
use rayon::prelude::*;

/// Number of items whose keys share all but the last byte: RLP of an index above 0xff ends in its low byte.
pub(crate) const GROUP: usize = 256;

/// Items per chunk where no group is complete: blocks of a few hundred transactions have nothing else.
pub(crate) const PIECE: usize = 64;

/// Groups per chunk. The topmost branches of a chunk are hashed side by side.
const TOGETHER: usize = 8;
/// Number of children of a branch.
const RADIX: usize = 16;
/// Length of a branch with sixteen hashed children and no value, in RLP.
const BRANCH: usize = 3 + RADIX * 33 + 1;
/// Path of a leaf that all nibbles of its key lead to: an even number of nibbles, which is zero.
const NO_PATH: u8 = 0x20;

/// Items, each in the leaf that ends a key, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Leaves {
    bytes: Vec<u8>,
    /// Begin of each item in its leaf, and end of both.
    spans: Vec<(usize, usize)>,
}

impl Leaves {
    /// Adds the item of `len` bytes that `encode` writes.
    pub(crate) fn add(&mut self, len: usize, encode: impl FnOnce(&mut Vec<u8>)) {
        debug_assert!(len > 1, "an item is a string with a header");
        rlp::list(1 + rlp::length(len), &mut self.bytes);
        self.bytes.push(NO_PATH);
        rlp::header(rlp::STRING, len, &mut self.bytes);
        let start = self.bytes.len();
        encode(&mut self.bytes);
        debug_assert_eq!(self.bytes.len() - start, len, "an item is as long as was said");
        self.spans.push((start, self.bytes.len()));
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.spans.iter().map(move |(_, end)| &self.bytes[core::mem::replace(&mut start, *end)..*end])
    }

    fn item(&self, index: usize) -> &[u8] {
        let (start, end) = self.spans[index];
        &self.bytes[start..end]
    }
}

/// Root of the trie that maps RLP(index) to an item, for `len` items, with the result of `encode` for each chunk, in
/// order. `encode(indices, leaves)` adds the items of consecutive indices, the first of which is a multiple of
/// [`PIECE`].
///
/// Groups of 256 consecutive indices are complete subtries, so that the top of the trie is built from their hashes.
/// Every item must be at least 32 bytes long, so that no node is small enough to be inlined; receipts are.
pub(crate) fn ordered_root<R: Send>(
    len: usize,
    encode: impl Fn(Range<usize>, &mut Leaves) -> R + Sync,
) -> (B256, Vec<R>) {
    if len == 0 {
        return (EMPTY_ROOT_HASH, Vec::new());
    }
    // Groups from 1 to the last complete one; group 0 has shorter keys, and the rest may not be a branch.
    let first = len.min(GROUP);
    let rest = (len / GROUP).max(1) * GROUP..len;
    let end = rest.start / GROUP;
    let tasks = (end - 1).div_ceil(TOGETHER);
    let groups = || {
        let tasks = (0..tasks).into_par_iter().with_max_len(1);
        let groups = |task| 1 + task * TOGETHER..end.min(1 + (task + 1) * TOGETHER);
        tasks.map(|task| hash_groups(groups(task), &encode)).collect::<Vec<_>>()
    };
    let edges = || (Edge::new(0..first, &encode), Edge::new(rest.start.min(len)..len, &encode));
    // Serially: together they are little work.
    let (groups, (head, tail)) = if tasks > 0 { rayon::join(groups, edges) } else { (Vec::new(), edges()) };

    let mut builder = HashBuilder::default();
    // In the order of the keys: 0x01..0x7f, then 0x80 (index 0), then 0x81 80..ff, then longer ones by length.
    for index in (1..first.min(0x80)).chain([0]).chain(0x80..first) {
        head.add(index, len, &mut builder);
    }
    let mut said = head.said;
    for (group, (hash, of_group)) in (1..).zip(groups.into_iter().flatten()) {
        let key = alloy_rlp::encode_fixed_size(&(group * GROUP));
        builder.add_branch(Nibbles::unpack(&key[..key.len() - 1]), hash, false);
        said.push(of_group);
    }
    for index in rest {
        tail.add(index, len, &mut builder);
    }
    said.extend(tail.said);
    (builder.root(), said)
}

/// Minimum length of an item whose leaf is hashed, however short its path is.
const HASHED: usize = 32;

/// Root of the trie that maps RLP(index) to a string, such as the encoding of a transaction.
pub(crate) fn strings_root<S: AsRef<[u8]> + Sync>(strings: &[S]) -> B256 {
    if strings.iter().any(|string| string.as_ref().len() < HASHED) {
        return ordered_trie_root_with_encoder(strings, |string, out| out.extend_from_slice(string.as_ref()));
    }
    let add = |string: &[u8], leaves: &mut Leaves| leaves.add(string.len(), |out| out.extend_from_slice(string));
    ordered_root(strings.len(), |range, leaves| strings[range].iter().for_each(|string| add(string.as_ref(), leaves))).0
}

/// Returns true if all nibbles of an index's key lead to its leaf: another of `len` indices has a key that differs in
/// the last nibble alone.
const fn ends_at_leaf(index: usize, len: usize) -> bool {
    // Index 0 has the key 0x80, and 0x81 begins all keys of two bytes.
    let lowest = if index < RADIX { 1 } else { 0 };
    index > 0 && (index % RADIX > lowest || index + 1 < len)
}

/// Nodes from the root to the item at `place` of an [`ordered_root`]. O(len).
pub(crate) fn ordered_proof(len: usize, place: usize, encode: impl Fn(usize, &mut Vec<u8>)) -> Vec<Bytes> {
    let mut builder = HashBuilder::default().with_proof_retainer(ProofRetainer::new(vec![path(place)]));
    let mut item = Vec::new();
    for index in (1..len.min(0x80)).chain((len > 0).then_some(0)).chain(0x80..len) {
        item.clear();
        encode(index, &mut item);
        builder.add_leaf(path(index), &item);
    }
    builder.root();
    builder.take_proof_nodes().into_nodes_sorted().into_iter().map(|(_, node)| node).collect()
}

/// Returns true if `nodes` lead from an [`ordered_root`] to `item` at `place`.
pub(crate) fn verify_ordered(root: B256, place: usize, item: &[u8], nodes: &[Bytes]) -> bool {
    verify_proof(root, path(place), Some(item.to_vec()), nodes).is_ok()
}

fn path(index: usize) -> Nibbles {
    Nibbles::unpack(alloy_rlp::encode_fixed_size(&index))
}

/// Leaves of consecutive indices that form no complete subtrie, with the result of each [`PIECE`] of them.
struct Edge<R> {
    first: usize,
    pieces: Vec<(Leaves, Vec<B256>)>,
    said: Vec<R>,
}

impl<R: Send> Edge<R> {
    fn new(indices: Range<usize>, encode: &(impl Fn(Range<usize>, &mut Leaves) -> R + Sync)) -> Self {
        let piece = |start: usize| {
            let (mut leaves, mut hashes) = (Leaves::default(), Vec::new());
            let said = encode(start..indices.end.min(start + PIECE), &mut leaves);
            keccak256_many(leaves.iter(), &mut hashes);
            ((leaves, hashes), said)
        };
        let starts = indices.clone().step_by(PIECE);
        let (pieces, said) = if starts.len() > 1 {
            let starts: Vec<_> = starts.collect();
            starts.into_par_iter().with_max_len(1).map(piece).unzip()
        } else {
            starts.map(piece).unzip()
        };
        Self { first: indices.start, pieces, said }
    }

    /// Adds a leaf to a trie of `len` items.
    fn add(&self, index: usize, len: usize, builder: &mut HashBuilder) {
        let at = index - self.first;
        let (leaves, hashes) = &self.pieces[at / PIECE];
        if ends_at_leaf(index, len) {
            builder.add_branch(path(index), hashes[at % PIECE], false);
        } else {
            builder.add_leaf(path(index), leaves.item(at % PIECE));
        }
    }
}

/// Hashes of the branches above groups of 256 items, by their low bytes: sixteen branches of sixteen leaves. Returned
/// with the result of `encode` for each group.
fn hash_groups<R>(groups: Range<usize>, encode: &impl Fn(Range<usize>, &mut Leaves) -> R) -> Vec<(B256, R)> {
    let mut leaves = Leaves::default();
    let (mut hashes, mut said) = (Vec::with_capacity(GROUP), Vec::with_capacity(groups.len()));
    let (mut branches, mut tops) = (Vec::with_capacity(RADIX * BRANCH), Vec::with_capacity(groups.len() * BRANCH));
    for group in groups {
        leaves.clear();
        said.push(encode(group * GROUP..(group + 1) * GROUP, &mut leaves));
        hashes.clear();
        keccak256_many(leaves.iter(), &mut hashes);
        branches.clear();
        hashes.chunks_exact(RADIX).for_each(|children| branch(children, &mut branches));
        hashes.clear();
        keccak256_many(branches.chunks_exact(BRANCH), &mut hashes);
        branch(&hashes, &mut tops);
    }
    hashes.clear();
    keccak256_many(tops.chunks_exact(BRANCH), &mut hashes);
    hashes.into_iter().zip(said).collect()
}

fn branch(children: &[B256], out: &mut Vec<u8>) {
    rlp::list(BRANCH - 3, out);
    children.iter().for_each(|child| rlp::fixed(&child.0, out));
    out.push(rlp::STRING);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};

    #[test]
    fn roots_of_strings_are_those_of_alloy() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(27);
        for count in [0, 1, 2, 15, 16, 17, 127, 128, 129, 255, 256, 257, 511, 512, 700, 2_500, 9_000] {
            // Leaves of short strings are part of their branch.
            for shortest in [1, HASHED] {
                let string = |_| {
                    let len = rng.random_range(shortest..200);
                    Bytes::from((0..len).map(|_| rng.random()).collect::<Vec<u8>>())
                };
                let strings: Vec<Bytes> = (0..count).map(string).collect();
                let expected = ordered_trie_root_with_encoder(&strings, |one, out| out.extend_from_slice(one));
                let strings: Vec<&Bytes> = strings.iter().collect();
                assert_eq!(strings_root(&strings), expected, "{count} of {shortest} bytes or more");
            }
        }
    }
}
