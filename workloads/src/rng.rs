//! The only random number generator of this crate.
//!
//! A general-purpose crate may change how it maps words to ranges between releases, and a stream that changes silently
//! makes old measurements incomparable. Both the generator and the mapping therefore live here, pinned by tests.

/// xoshiro256++ (Blackman and Vigna), seeded by SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Rng([u64; 4]);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self([mix(seed, 1), mix(seed, 2), mix(seed, 3), mix(seed, 4)])
    }

    /// Next 64 uniform bits.
    #[inline]
    pub(crate) const fn word(&mut self) -> u64 {
        let [a, b, c, d] = self.0;
        let word = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.0 = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        word
    }

    /// Uniform in `0..bound`, without bias (Lemire, "Fast random integer generation in an interval"): a word is the
    /// fraction of 2^64 that picks a bucket, redrawn when it falls into the sliver that does not divide evenly.
    ///
    /// `bound` must not be zero; zero gives zero.
    #[inline]
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        let mut wide = self.word() as u128 * bound as u128;
        if (wide as u64) < bound {
            let sliver = if bound == 0 { 0 } else { bound.wrapping_neg() % bound };
            while (wide as u64) < sliver {
                wide = self.word() as u128 * bound as u128;
            }
        }
        (wide >> 64) as u64
    }
}

/// Word `index` of the SplitMix64 sequence of `seed`: for a fixed seed a bijection of `index`.
#[inline]
pub(crate) const fn mix(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_xoshiro256_plus_plus() {
        // The reference outputs for the state 1, 2, 3, 4.
        let mut rng = Rng([1, 2, 3, 4]);
        let words: [u64; 5] = core::array::from_fn(|_| rng.word());
        assert_eq!(words, [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205]);
    }

    #[test]
    fn the_seeding_is_splitmix64() {
        // The reference outputs for seed 1234567.
        let words: [u64; 3] = core::array::from_fn(|i| mix(1234567, i as u64 + 1));
        assert_eq!(words, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn ranges_are_covered_evenly() {
        let mut rng = Rng::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[rng.below(10) as usize] += 1;
        }
        // 10,000 expected, standard deviation 95.
        assert!(seen.iter().all(|n| (9_525..10_475).contains(n)), "{seen:?}");
        assert!((0..1_000).all(|_| rng.below(1) == 0));
        // With bound 3/4 of 2^64 a biased mapping would favour every third value by a factor of two.
        let bound = 3 << 62;
        let multiples = (0..30_000).filter(|_| rng.below(bound).is_multiple_of(3)).count();
        assert!((9_600..10_400).contains(&multiples), "{multiples}");
    }
}
