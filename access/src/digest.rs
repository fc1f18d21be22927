//! Keyed digests of keys: they place a key, and never identify it.

use core::{fmt, hash::Hash};

/// Secret that keys every digest of one run.
///
/// A digest is never an identity, but equal digests cost time: an attacker that can predict them can craft keys that all meet
/// in one bucket. The caller chooses the salt: random in production, fixed for reproducible frames.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Salt([u64; 4]);

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt(..)")
    }
}

impl Salt {
    /// Expands a 64-bit seed, by SplitMix64.
    pub const fn new(seed: u64) -> Self {
        let mut words = [0; 4];
        let mut state = seed;
        let mut i = 0;
        while i < 4 {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            words[i] = z ^ (z >> 31);
            i += 1;
        }
        Self(words)
    }

    /// Digest of three words.
    #[inline]
    pub const fn digest3(&self, words: [u64; 3]) -> u64 {
        fold(fold(words[0] ^ self.0[0], words[1] ^ self.0[1]) ^ words[2], self.0[2])
    }

    /// Digest of eight words.
    #[inline]
    pub const fn digest8(&self, w: [u64; 8]) -> u64 {
        let a = fold(w[0] ^ self.0[0], w[1] ^ self.0[1]);
        let b = fold(w[2] ^ self.0[1], w[3] ^ self.0[2]);
        let c = fold(w[4] ^ self.0[2], w[5] ^ self.0[3]);
        let d = fold(w[6] ^ self.0[3], w[7] ^ self.0[0]);
        fold(a ^ b.rotate_left(23) ^ self.0[0], c ^ d.rotate_left(41) ^ self.0[3])
    }
}

/// Multiplies to 128 bits and folds the halves together.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let wide = (a as u128) * (b as u128);
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// A full key of the state, compared in full.
pub trait Key: Copy + Eq + Hash + fmt::Debug {
    /// Returns a keyed 64-bit digest. Equal keys have equal digests under one salt; unequal keys may, too.
    fn digest(&self, salt: &Salt) -> u64;
}

impl Key for u64 {
    #[inline]
    fn digest(&self, salt: &Salt) -> u64 {
        salt.digest3([*self, 0, 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_depend_on_key_and_salt_and_spread() {
        let (a, b) = (Salt::new(1), Salt::new(2));
        assert_ne!(7u64.digest(&a), 7u64.digest(&b));
        assert_eq!(format!("{a:?}"), "Salt(..)");
        let mut seen = std::collections::HashSet::new();
        let mut buckets = [0u32; 64];
        for key in 0..100_000u64 {
            let digest = key.digest(&a);
            seen.insert(digest);
            buckets[(digest >> 58) as usize] += 1;
        }
        assert_eq!(seen.len(), 100_000);
        // 100,000 / 64 = 1562 expected, standard deviation 39.
        assert!(buckets.iter().all(|n| (1300..1830).contains(n)), "{buckets:?}");
    }

    #[test]
    fn a_digest_depends_on_every_word() {
        let salt = Salt::new(3);
        let base = [11u64; 8];
        for i in 0..8 {
            let mut other = base;
            other[i] ^= 1;
            assert_ne!(salt.digest8(base), salt.digest8(other), "word {i}");
        }
        for i in 0..3 {
            let mut other = [5u64; 3];
            other[i] ^= 1 << 40;
            assert_ne!(salt.digest3([5; 3]), salt.digest3(other), "word {i}");
        }
    }
}
