//! Root of an ordered trie (receipts), its subtries hashed in parallel and many nodes at once.

use alloy_primitives::{B256, Bytes, keccak256};
use alloy_rlp::Header;
use alloy_trie::{
    EMPTY_ROOT_HASH, HashBuilder, Nibbles,
    proof::{ProofRetainer, verify_proof},
};
use phalanx_paralyze::keccak256_many;
use rayon::prelude::*;

/// Items whose keys share all but the last byte: RLP of an index above 0xff ends in its low byte.
const GROUP: usize = 256;
/// Children of a branch.
const RADIX: usize = 16;
/// RLP of a branch with sixteen hashed children and no value.
const BRANCH: usize = 3 + RADIX * 33 + 1;

/// Root of the trie that maps RLP(index) to what `encode(index, out)` writes, for `len` items.
///
/// Groups of 256 consecutive indices are complete subtries, so that each is one task and the top of the trie is built
/// from their hashes. Every item must be at least 32 bytes long, so that no node is small enough to be inlined; receipts
/// are.
pub(crate) fn ordered_root(len: usize, encode: impl Fn(usize, &mut Vec<u8>) + Sync) -> B256 {
    if len == 0 {
        return EMPTY_ROOT_HASH;
    }
    // Groups from 1 to the last complete one; group 0 has shorter keys, a rest may not be a branch.
    let complete = len / GROUP;
    let subtries: Vec<B256> =
        (1..complete.max(1)).into_par_iter().map(|group| subtrie(group * GROUP, &encode)).collect();
    let mut builder = HashBuilder::default();
    let mut buffer = Vec::new();
    let mut add = |builder: &mut HashBuilder, index: usize| {
        buffer.clear();
        encode(index, &mut buffer);
        builder.add_leaf(path(index), &buffer);
    };
    // In the order of the keys: 0x01..0x7f, then 0x80 (index 0), then 0x81 80..ff, then longer ones by length.
    for index in (1..len.min(0x80)).chain([0]).chain(0x80..len.min(GROUP)) {
        add(&mut builder, index);
    }
    for (group, hash) in (1..).zip(&subtries) {
        let key = alloy_rlp::encode_fixed_size(&(group * GROUP));
        builder.add_branch(Nibbles::unpack(&key[..key.len() - 1]), *hash, false);
    }
    for index in complete.max(1) * GROUP..len {
        add(&mut builder, index);
    }
    builder.root()
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

/// Hash of the branch that holds the 256 items from `first` on, by their low bytes: sixteen branches of sixteen leaves.
fn subtrie(first: usize, encode: &impl Fn(usize, &mut Vec<u8>)) -> B256 {
    let (mut nodes, mut ends, mut item) = (Vec::new(), Vec::with_capacity(GROUP), Vec::new());
    for index in first..first + GROUP {
        item.clear();
        encode(index, &mut item);
        let value = Header { list: false, payload_length: item.len() };
        // Two nibbles led to the leaf, none is left: the path is 0x20, an even number of nibbles that is zero.
        Header { list: true, payload_length: 1 + value.length_with_payload() }.encode(&mut nodes);
        nodes.push(0x20);
        value.encode(&mut nodes);
        nodes.extend_from_slice(&item);
        ends.push(nodes.len());
    }
    let mut leaves = Vec::with_capacity(GROUP);
    let starts = core::iter::once(0).chain(ends.iter().copied());
    let spans: Vec<_> = starts.zip(&ends).map(|(start, end)| &nodes[start..*end]).collect();
    keccak256_many(spans.into_iter(), &mut leaves);

    let mut branches = Vec::with_capacity(RADIX * BRANCH);
    leaves.chunks_exact(RADIX).for_each(|children| branch(children, &mut branches));
    let mut hashes = Vec::with_capacity(RADIX);
    keccak256_many(branches.chunks_exact(BRANCH), &mut hashes);
    branches.clear();
    branch(&hashes, &mut branches);
    keccak256(&branches)
}

fn branch(children: &[B256], out: &mut Vec<u8>) {
    Header { list: true, payload_length: BRANCH - 3 }.encode(out);
    for child in children {
        out.push(0xa0);
        out.extend_from_slice(child.as_slice());
    }
    out.push(0x80);
}
