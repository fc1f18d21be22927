//! Random numbers from a seed, the same on every machine and in every version.

/// SplitMix64: 64 bits of state, equidistributed, good enough to choose faults with.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which must not be zero. The bias is below `bound` / 2^64.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    /// True in `permille` of a thousand cases.
    pub const fn chance(&mut self, permille: u32) -> bool {
        // An impossible event draws nothing: a run without faults does not depend on how many were possible.
        permille > 0 && self.below(1000) < permille as u64
    }

    /// Independent stream for part `label` of the same experiment.
    #[must_use]
    pub const fn fork(&self, label: u64) -> Self {
        Self(mix(self.0 ^ mix(label.wrapping_add(0x5851_f42d_4c95_7f2d))))
    }
}

/// Spreads every bit of a number over all 64.
#[must_use]
pub(crate) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_pinned() {
        let mut rng = Rng::new(0);
        assert_eq!([rng.next(), rng.next()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
        assert!((0..1000).all(|_| rng.below(7) < 7) && !rng.chance(0) && rng.chance(1000));
    }
}
