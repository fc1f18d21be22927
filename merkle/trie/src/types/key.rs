//! Paths of hashed keys, in nibbles.

use alloy_primitives::B256;

/// Nibbles of a key.
pub(crate) const DEPTH: usize = 64;

/// The nibble of a key at index `at`.
#[inline]
pub(crate) fn nibble(key: &B256, at: usize) -> usize {
    usize::from(if at.is_multiple_of(2) { key[at / 2] >> 4 } else { key[at / 2] & 15 })
}

/// First bytes of a key, in the keys' order.
#[inline]
pub(crate) const fn prefix(key: &B256) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = key.0;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Number of nibbles with which both keys begin.
#[inline]
pub(crate) fn common(a: &B256, b: &B256) -> usize {
    match a.iter().zip(b).position(|(a, b)| a != b) {
        Some(byte) => 2 * byte + usize::from(a[byte] >> 4 == b[byte] >> 4),
        None => DEPTH,
    }
}

/// Runs of sorted items whose keys have the same nibble at `depth`, and all nibbles above in common.
pub(crate) fn runs<T>(items: &[T], depth: usize, key: impl Fn(&T) -> &B256) -> impl Iterator<Item = (usize, &[T])> {
    let nibble = move |item: &T| nibble(key(item), depth);
    let mut rest = items;
    core::iter::from_fn(move || {
        let first = nibble(rest.first()?);
        let len = match rest {
            [_] => 1,
            [_, second, ..] if nibble(second) != first => 1,
            _ => rest.partition_point(|item| nibble(item) == first),
        };
        let (run, after) = rest.split_at(len);
        rest = after;
        Some((first, run))
    })
}
