//! Root of an ordered trie (receipts), its subtries hashed in parallel.

use alloy_primitives::B256;
use alloy_trie::{EMPTY_ROOT_HASH, HashBuilder, Nibbles};
use rayon::prelude::*;

/// Items whose keys share all but the last byte: RLP of an index above 0xff ends in its low byte.
const GROUP: usize = 256;

/// Root of the trie that maps RLP(index) to what `encode(index, out)` writes, for `len` items.
///
/// Groups of 256 consecutive indices are complete subtries, so that each is one task and the top of the trie is built
/// from their hashes. Every item must be at least 32 bytes long, so that no subtrie is small enough to be inlined;
/// receipts are.
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
        builder.add_leaf(Nibbles::unpack(alloy_rlp::encode_fixed_size(&index)), &buffer);
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

/// Hash of the branch that holds the 256 items from `first` on, by their low bytes.
fn subtrie(first: usize, encode: &impl Fn(usize, &mut Vec<u8>)) -> B256 {
    let mut builder = HashBuilder::default();
    let mut buffer = Vec::new();
    for low in 0..GROUP {
        buffer.clear();
        encode(first + low, &mut buffer);
        builder.add_leaf(Nibbles::unpack([low as u8]), &buffer);
    }
    builder.root()
}
