//! Zipf's law: draws ranks of which the k-th has a probability in proportion to k^-s.

use crate::rng::Rng;

/// Ranks from 1, by rejection from the integral of x^-s (Hörmann and Derflinger, "Rejection-inversion to generate variates
/// from monotone discrete distributions", 1996). Exact for every exponent; a draw takes 1.1 words on average.
///
/// Powers and logarithms come from `libm`, not from the system: one seed is one stream on every machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Zipf {
    exponent: f64,
    ranks: u64,
    /// Integral up to 3/2, less the probability of rank 1: every word of that range is rank 1.
    low: f64,
    /// Integral up to half a rank beyond the last.
    high: f64,
    /// Distance below its rank within which a point is accepted without a look at the integral.
    near: f64,
}

impl Zipf {
    /// Maximum exponent: two equal draws are repeated by the callers, and with 4 nine of ten pairs are equal.
    pub(crate) const MAX_EXPONENT: f64 = 4.0;

    /// The law over `1..=ranks`; `None` without ranks, or for an exponent that is not above zero and at most
    /// [`Self::MAX_EXPONENT`].
    pub(crate) fn new(exponent: f64, ranks: u64) -> Option<Self> {
        if ranks == 0 || !(exponent > 0.0 && exponent <= Self::MAX_EXPONENT) {
            return None;
        }
        let mut law = Self { exponent, ranks, low: 0.0, high: 0.0, near: 0.0 };
        law.low = law.integral(1.5) - 1.0;
        law.high = law.integral(ranks as f64 + 0.5);
        law.near = 2.0 - law.inverse(law.integral(2.5) - law.weight(2.0));
        Some(law)
    }

    /// Next rank, `1..=ranks`.
    #[inline]
    pub(crate) fn rank(&self, rng: &mut Rng) -> u64 {
        loop {
            // In (0, 1]: the top of the range is the first rank's end of the law.
            let uniform = ((rng.word() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            let point = self.high + uniform * (self.low - self.high);
            let x = self.inverse(point);
            // Rounding at the ends may leave the range.
            let rank = libm::floor(x + 0.5).clamp(1.0, self.ranks as f64);
            if rank - x <= self.near || point >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64;
            }
        }
    }

    /// x^-s.
    fn weight(&self, x: f64) -> f64 {
        libm::pow(x, -self.exponent)
    }

    /// Integral of the weight from 1 to `x`.
    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.exponent;
        // x^p - 1 over p, which is the logarithm at p = 0 and keeps its digits beside it.
        let log = libm::log(x);
        if power == 0.0 { log } else { libm::expm1(power * log) / power }
    }

    /// The x of an integral.
    fn inverse(&self, integral: f64) -> f64 {
        let power = 1.0 - self.exponent;
        let log = if power == 0.0 { integral } else { libm::log1p(power * integral) / power };
        libm::exp(log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_the_probabilities_of_the_law() {
        for (seed, exponent) in [0.1, 0.5, 0.99, 1.0, 1.000_001, 1.5, 2.0, 4.0].into_iter().enumerate() {
            for ranks in [1, 2, 3, 20] {
                let law = Zipf::new(exponent, ranks).unwrap();
                let mut rng = Rng::new(seed as u64);
                let (draws, mut seen) = (200_000, vec![0f64; ranks as usize]);
                for _ in 0..draws {
                    seen[law.rank(&mut rng) as usize - 1] += 1.0;
                }
                let weights: Vec<f64> = (1..=ranks).map(|rank| (rank as f64).powf(-exponent)).collect();
                let total: f64 = weights.iter().sum();
                for (at, (count, weight)) in seen.iter().zip(&weights).enumerate() {
                    let p = weight / total;
                    let expected = f64::from(draws) * p;
                    let sigma = (expected * (1.0 - p)).sqrt();
                    assert!(
                        (count - expected).abs() <= 5.0 * sigma + 1e-9,
                        "exponent {exponent}, rank {} of {ranks}: {count} is not {expected}",
                        at + 1
                    );
                }
            }
        }
    }

    #[test]
    fn a_billion_ranks_keep_their_share_at_both_ends() {
        let ranks = 1 << 30;
        let law = Zipf::new(1.0, ranks).unwrap();
        let mut rng = Rng::new(9);
        let draws = 200_000;
        let drawn: Vec<u64> = (0..draws).map(|_| law.rank(&mut rng)).collect();
        assert!(drawn.iter().all(|rank| (1..=ranks).contains(rank)));
        // With exponent 1 a share of ranks up to k is ln k + γ over ln n + γ, but for 1 / 2k.
        let harmonic = |k: f64| k.ln() + 0.577_215_664_9 + 0.5 / k;
        for bound in [1u64, 1_000, 1 << 20, 1 << 29] {
            let p = if bound == 1 { 1.0 } else { harmonic(bound as f64) } / harmonic(ranks as f64);
            let count = drawn.iter().filter(|rank| **rank <= bound).count() as f64;
            let expected = f64::from(draws) * p;
            let sigma = (expected * (1.0 - p)).sqrt();
            assert!((count - expected).abs() <= 5.0 * sigma, "up to {bound}: {count} is not {expected}");
        }
    }

    #[test]
    fn the_stream_of_a_seed_is_pinned() {
        let law = Zipf::new(1.0, 1 << 26).unwrap();
        let mut rng = Rng::new(1);
        let drawn: [u64; 6] = core::array::from_fn(|_| law.rank(&mut rng));
        assert_eq!(drawn, [18, 61, 10_400_675, 62, 2_156_040, 1_129]);
    }

    #[test]
    fn a_law_that_is_none_is_refused() {
        for exponent in [0.0, -1.0, 4.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Zipf::new(exponent, 9), None);
        }
        assert_eq!(Zipf::new(1.0, 0), None);
        let alone = Zipf::new(4.0, 1).unwrap();
        let mut rng = Rng::new(2);
        assert!((0..1_000).all(|_| alone.rank(&mut rng) == 1));
    }
}
