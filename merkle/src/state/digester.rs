//! A salted 64-bit hash of keys, for tables: keys cannot be crafted to collide without the salt. No root depends on it.

/// Salted hash function for keys.
#[derive(Clone, Copy)]
pub(crate) struct KeyDigester([u64; 3]);

impl std::fmt::Debug for KeyDigester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The salt is a secret.
        f.write_str("Keyed")
    }
}

impl KeyDigester {
    pub(crate) const fn new(salt: u64) -> Self {
        let mut words = [0; 3];
        let mut state = salt;
        let mut i = 0;
        while i < words.len() {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            words[i] = z ^ (z >> 31);
            i += 1;
        }
        Self(words)
    }

    /// Digest of a byte string.
    ///
    /// Each step folds a 128-bit product of two words. The length goes in last, so that a zero byte more is another
    /// key.
    #[inline]
    pub(crate) fn digest(&self, bytes: &[u8]) -> u64 {
        let [a, b, c] = self.0;
        let mut state = a;
        let (pairs, rest) = bytes.as_chunks::<16>();
        for pair in pairs {
            let (lo, hi) = ends(pair);
            state = fold(state ^ lo, b ^ hi);
        }
        if !rest.is_empty() {
            let (lo, hi) = ends(rest);
            state = fold(state ^ lo, b ^ hi);
        }
        fold(state ^ bytes.len() as u64, c)
    }
}

#[inline]
const fn word(bytes: &[u8; 8]) -> u64 {
    u64::from_le_bytes(*bytes)
}

/// Two overlapping words of at most sixteen bytes. They determine a string of a given length.
#[inline]
fn ends(bytes: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return (word(first), word(last));
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into());
    }
    (bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0)
}

#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let wide = (a as u128) * (b as u128);
    (wide as u64) ^ ((wide >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_byte_the_length_and_the_salt_matter() {
        let digester = KeyDigester::new(1);
        let mut seen = HashSet::new();
        for len in 0..80 {
            let base = vec![0u8; len];
            assert!(seen.insert(digester.digest(&base)), "length {len}");
            assert_ne!(digester.digest(&base), KeyDigester::new(2).digest(&base));
            for at in 0..len {
                let mut other = base.clone();
                other[at] = 1;
                assert!(seen.insert(digester.digest(&other)), "length {len} byte {at}");
            }
        }
    }
}
