//! Root of an ordered trie (receipts), its subtries hashed in parallel and many nodes at once.

use alloy_primitives::{B256, Bytes, keccak256};
use alloy_rlp::Header;
use alloy_trie::{
    EMPTY_ROOT_HASH, HashBuilder, Nibbles,
    proof::{ProofRetainer, verify_proof},
};
use core::ops::Range;
use phalanx_paralyze::keccak256_many;
use rayon::prelude::*;

/// Items whose keys share all but the last byte: RLP of an index above 0xff ends in its low byte.
pub(crate) const GROUP: usize = 256;

/// Groups that one thread hashes before another may go on.
const SHARED: usize = 8;
/// Children of a branch.
const RADIX: usize = 16;
/// RLP of a branch with sixteen hashed children and no value.
const BRANCH: usize = 3 + RADIX * 33 + 1;

/// Items in their encoding, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Items {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Items {
    /// Adds the item that `encode` writes.
    pub(crate) fn add(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        encode(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        spans(&self.bytes, &self.ends)
    }
}

fn spans<'b>(bytes: &'b [u8], ends: &'b [usize]) -> impl ExactSizeIterator<Item = &'b [u8]> {
    let mut start = 0;
    ends.iter().map(move |end| &bytes[core::mem::replace(&mut start, *end)..*end])
}

/// Root of the trie that maps RLP(index) to an item, for `len` items, and what `encode` has to say of each group of them.
/// `encode(indices, items)` adds the items of some consecutive indices.
///
/// Groups of 256 consecutive indices are complete subtries, so that each is one task and the top of the trie is built
/// from their hashes. Every item must be at least 32 bytes long, so that no node is small enough to be inlined; receipts
/// are.
pub(crate) fn ordered_root<R: Send>(
    len: usize,
    encode: impl Fn(Range<usize>, &mut Items) -> R + Sync,
) -> (B256, Vec<R>) {
    if len == 0 {
        return (EMPTY_ROOT_HASH, Vec::new());
    }
    // Groups from 1 to the last complete one; group 0 has shorter keys, a rest may not be a branch.
    let first = len.min(GROUP);
    let rest = (len / GROUP).max(1) * GROUP..len;
    let edge = |indices| {
        let mut items = Items::default();
        let said = encode(indices, &mut items);
        (items, said)
    };
    let groups = || {
        let groups = (1..rest.start / GROUP).into_par_iter().with_max_len(SHARED);
        groups.map_init(Subtrie::default, |subtrie, group| subtrie.hash(group * GROUP, &encode)).collect::<Vec<_>>()
    };
    let edges = || (edge(0..first), edge(rest.start.min(len)..len));
    // To offer the edges alone to another thread wakes it for nothing.
    let (groups, ((head, head_said), (tail, tail_said))) =
        if rest.start > GROUP { rayon::join(groups, edges) } else { (Vec::new(), edges()) };

    let mut builder = HashBuilder::default();
    let head: Vec<&[u8]> = head.iter().collect();
    // In the order of the keys: 0x01..0x7f, then 0x80 (index 0), then 0x81 80..ff, then longer ones by length.
    for index in (1..first.min(0x80)).chain([0]).chain(0x80..first) {
        builder.add_leaf(path(index), head[index]);
    }
    for (group, (hash, _)) in (1..).zip(&groups) {
        let key = alloy_rlp::encode_fixed_size(&(group * GROUP));
        builder.add_branch(Nibbles::unpack(&key[..key.len() - 1]), *hash, false);
    }
    for (index, item) in rest.zip(tail.iter()) {
        builder.add_leaf(path(index), item);
    }
    let said = groups.into_iter().map(|(_, said)| said).chain([head_said, tail_said]).collect();
    (builder.root(), said)
}

/// The nodes from the root to the item at `place` of an [`ordered_root`]. O(len).
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

/// Whether `nodes` lead from an [`ordered_root`] to `item` at `place`.
pub(crate) fn verify_ordered(root: B256, place: usize, item: &[u8], nodes: &[Bytes]) -> bool {
    verify_proof(root, path(place), Some(item.to_vec()), nodes).is_ok()
}

fn path(index: usize) -> Nibbles {
    Nibbles::unpack(alloy_rlp::encode_fixed_size(&index))
}

/// Hashes groups of 256 items; keeps its memory from one to the next.
#[derive(Default)]
struct Subtrie {
    items: Items,
    nodes: Items,
    leaves: Vec<B256>,
    branches: Vec<u8>,
    hashes: Vec<B256>,
}

impl Subtrie {
    /// Hash of the branch that holds the 256 items from `first` on, by their low bytes: sixteen branches of sixteen leaves.
    fn hash<R>(&mut self, first: usize, encode: &impl Fn(Range<usize>, &mut Items) -> R) -> (B256, R) {
        let Self { items, nodes, leaves, branches, hashes } = self;
        items.clear();
        nodes.clear();
        leaves.clear();
        branches.clear();
        hashes.clear();
        let said = encode(first..first + GROUP, items);
        for item in items.iter() {
            nodes.add(|node| {
                let value = Header { list: false, payload_length: item.len() };
                // Two nibbles led to the leaf, none is left: the path is 0x20, an even number of nibbles that is zero.
                Header { list: true, payload_length: 1 + value.length_with_payload() }.encode(node);
                node.push(0x20);
                value.encode(node);
                node.extend_from_slice(item);
            });
        }
        keccak256_many(nodes.iter(), leaves);
        leaves.chunks_exact(RADIX).for_each(|children| branch(children, branches));
        keccak256_many(branches.chunks_exact(BRANCH), hashes);
        branches.clear();
        branch(hashes, branches);
        (keccak256(branches), said)
    }
}

fn branch(children: &[B256], out: &mut Vec<u8>) {
    Header { list: true, payload_length: BRANCH - 3 }.encode(out);
    for child in children {
        out.push(0xa0);
        out.extend_from_slice(child.as_slice());
    }
    out.push(0x80);
}
