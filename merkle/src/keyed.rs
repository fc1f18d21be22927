/// A keyed 64-bit hash of byte strings. It keeps an outsider from choosing keys that meet in one bucket of the index; no
/// root depends on it.
#[derive(Clone, Copy)]
pub(crate) struct Keyed([u64; 3]);

impl std::fmt::Debug for Keyed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The salt is nobody's business.
        f.write_str("Keyed")
    }
}

impl Keyed {
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

    /// Two words at a time, each step a 128-bit product folded in half; the length goes in at the end, so that a zero
    /// byte more is another key.
    #[inline]
    pub(crate) fn digest(&self, bytes: &[u8]) -> u64 {
        let [a, b, c] = self.0;
        let mut state = a;
        let (pairs, rest) = bytes.as_chunks::<16>();
        for pair in pairs {
            let (lo, hi) = pair.split_at(8);
            state = fold(state ^ word(lo), b ^ word(hi));
        }
        if !rest.is_empty() {
            let (lo, hi) = rest.split_at(rest.len().min(8));
            state = fold(state ^ word(lo), b ^ word(hi));
        }
        fold(state ^ bytes.len() as u64, c)
    }
}

#[inline]
fn word(bytes: &[u8]) -> u64 {
    if let Some(bytes) = bytes.first_chunk() {
        return u64::from_le_bytes(*bytes);
    }
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
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
        let keyed = Keyed::new(1);
        let mut seen = HashSet::new();
        for len in 0..80 {
            let base = vec![0u8; len];
            assert!(seen.insert(keyed.digest(&base)), "length {len}");
            assert_ne!(keyed.digest(&base), Keyed::new(2).digest(&base));
            for at in 0..len {
                let mut other = base.clone();
                other[at] = 1;
                assert!(seen.insert(keyed.digest(&other)), "length {len} byte {at}");
            }
        }
    }
}
