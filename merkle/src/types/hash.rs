//! Prefixes of key hashes, which order keys.

use phalanx_merkle_proof::Hash;

/// The first eight bytes of a hash.
#[inline]
pub(crate) const fn prefix(hash: &Hash) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *hash;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}
