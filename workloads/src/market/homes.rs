//! Home pools of accounts, and the popularity of pools and tokens.

use crate::rng::{Rng, mix};

/// Home pool of every account, where it trades beside the hot one: a function of its position, so that it takes no
/// memory.
#[derive(Clone, Debug)]
pub(crate) struct Homes {
    seed: u64,
    pools: u32,
    popularity: Popularity,
}

/// Distribution of accounts over pools.
#[derive(Clone, Debug)]
pub(crate) enum Popularity {
    /// All pools have equally many accounts.
    Uniform,
    /// The token of rank `r` has weight `1/r` (Zipf). The hub has rank one, the token of pool `p` rank `p + 2`.
    ///
    /// # Invariants
    /// Thresholds for words of 64 bits, one per rank, rising, the last 2^64.
    Zipf(Vec<u128>),
}

const WHOLE: u128 = 1 << 64;

impl Popularity {
    /// Computes Zipf thresholds with additions and divisions of doubles only, which give the same bits everywhere.
    pub(crate) fn zipf(pools: u32) -> Self {
        let weights = || (1..=u64::from(pools) + 1).map(|rank| 1.0 / rank as f64);
        let total: f64 = weights().sum();
        let mut reached = 0.0;
        let mut thresholds: Vec<_> = weights()
            .map(|weight| {
                reached += weight;
                (reached / total * WHOLE as f64) as u128
            })
            .collect();
        if let Some(last) = thresholds.last_mut() {
            *last = WHOLE;
        }
        Self::Zipf(thresholds)
    }
}

impl Homes {
    pub(crate) const fn new(seed: u64, pools: u32, popularity: Popularity) -> Self {
        Self { seed, pools, popularity }
    }

    /// Home pool of the account at `position`. O(log pools).
    #[inline]
    pub(crate) fn of(&self, position: u32) -> u32 {
        let word = u128::from(mix(self.seed ^ 0x686f_6d65, position.into()));
        match &self.popularity {
            // Off by less than pools / 2^64 from uniform.
            Popularity::Uniform => ((word * u128::from(self.pools)) >> 64) as u32,
            Popularity::Zipf(thresholds) => {
                let hub = thresholds[0];
                // The part of the range above the hub's, stretched over the whole range.
                let word = hub + word * (WHOLE - hub) / WHOLE;
                thresholds[1..].partition_point(|threshold| *threshold <= word) as u32
            }
        }
    }

    /// Draws whether the next transfer moves the hub token rather than the sender's home token. With many senders,
    /// tokens then appear according to their ranks.
    pub(crate) fn draws_hub(&self, rng: &mut Rng) -> bool {
        let word = u128::from(rng.word());
        match &self.popularity {
            Popularity::Uniform => word < WHOLE / 2,
            Popularity::Zipf(thresholds) => word < thresholds[0],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNTS: u32 = 200_000;

    fn count(homes: &Homes) -> Vec<f64> {
        let mut seen = vec![0.0; homes.pools as usize];
        (0..ACCOUNTS).for_each(|position| seen[homes.of(position) as usize] += 1.0);
        seen
    }

    fn near(found: f64, share: f64) {
        let n = f64::from(ACCOUNTS);
        let sigma = (n * share * (1.0 - share)).sqrt();
        assert!((found - n * share).abs() <= 5.0 * sigma + 1.0, "{found} is not {}", n * share);
    }

    #[test]
    fn uniform_homes_are_equally_common() {
        count(&Homes::new(1, 7, Popularity::Uniform)).into_iter().for_each(|found| near(found, 1.0 / 7.0));
        assert_eq!(count(&Homes::new(1, 1, Popularity::Uniform)), [f64::from(ACCOUNTS)]);
    }

    #[test]
    fn zipf_gives_each_rank_its_share() {
        for pools in [1u32, 2, 50] {
            let homes = Homes::new(9, pools, Popularity::zipf(pools));
            let below_hub: f64 = (2..=pools + 1).map(|rank| 1.0 / f64::from(rank)).sum();
            for (pool, found) in count(&homes).into_iter().enumerate() {
                near(found, 1.0 / (pool as f64 + 2.0) / below_hub);
            }
            let mut rng = Rng::new(4);
            let hub = (0..ACCOUNTS).filter(|_| homes.draws_hub(&mut rng)).count();
            near(hub as f64, 1.0 / (1.0 + below_hub));
        }
    }
}
