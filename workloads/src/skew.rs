//! Contention: draws the two sides of a transfer from hot and cold accounts.

use crate::{
    config::{ConfigError, HotSide, TransferLoad},
    rng::Rng,
    zipf::Zipf,
};

/// Draws the two sides of a transfer, as positions in the sorted address list.
#[derive(Clone, Debug)]
pub(crate) enum Skew {
    /// Hot and cold accounts.
    Hot(Hot),
    /// Both sides by Zipf's law, the first address the most frequent; a pair of equal addresses is drawn again.
    Zipf(Zipf),
}

impl Skew {
    pub(crate) fn new(load: &TransferLoad) -> Result<Self, ConfigError> {
        let Some(exponent) = load.zipf else { return Hot::new(load).map(Self::Hot) };
        if load.alpha != 0.0 {
            return Err(ConfigError::ZipfAndAlpha { alpha: load.alpha });
        }
        if load.accounts < 2 {
            return Err(ConfigError::Accounts { accounts: load.accounts });
        }
        Zipf::new(exponent, load.accounts).map(Self::Zipf).ok_or(ConfigError::Zipf { exponent })
    }

    /// Sender and receiver of the next transfer; never equal. O(1), expected for Zipf's law.
    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> (u32, u32) {
        match self {
            Self::Hot(hot) => hot.draw(rng),
            Self::Zipf(law) => {
                // Positions stay below `accounts`, which is at least 2 and at most 2^32 - 1.
                let mut side = || (law.rank(rng) - 1) as u32;
                loop {
                    let (sender, receiver) = (side(), side());
                    if sender != receiver {
                        return (sender, receiver);
                    }
                }
            }
        }
    }
}

/// Hot and cold accounts (FAFO, section 3.2).
///
/// A transfer first draws its class (which sides are hot), then a distinct pair within it. For [`HotSide::Both`] this
/// is the same distribution as drawing both sides independently until they differ: given that they differ, a class has
/// the probability of being drawn times the probability of a distinct pair within it, and pairs within a class are
/// uniform. No draw is ever repeated, so no choice of α and γ makes generation slow.
#[derive(Clone, Debug)]
pub(crate) struct Hot {
    /// A word below the threshold (a fraction of 2^64) and not below the previous one draws the class.
    ///
    /// # Invariants
    /// Not empty; thresholds rise; the last is 2^64; every class here has at least one distinct pair.
    classes: Vec<(u128, Class)>,
}

/// Ranges of the two sides of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Class {
    from: Pool,
    to: Pool,
}

/// A range of the sorted address list.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pool {
    start: u64,
    len: u64,
}

const WHOLE: u128 = 1 << 64;

impl Hot {
    fn new(load: &TransferLoad) -> Result<Self, ConfigError> {
        let TransferLoad { accounts, alpha, gamma, hot: side, .. } = *load;
        if !(0.0..=1.0).contains(&alpha) {
            return Err(ConfigError::Alpha { alpha });
        }
        if alpha == 0.0 {
            let all = Pool { start: 0, len: accounts };
            return Ok(Self { classes: vec![(WHOLE, Class { from: all, to: all })] });
        }
        if gamma == 0 || gamma > accounts {
            return Err(ConfigError::Gamma { gamma, accounts });
        }
        let hot = Pool { start: 0, len: gamma };
        let cold = Pool { start: gamma, len: accounts - gamma };

        let always = alpha == 1.0;
        let needed = match side {
            HotSide::Both => u64::from(!always),
            HotSide::Sender | HotSide::Receiver => 2 - u64::from(always),
        };
        if cold.len < needed {
            return Err(ConfigError::TooFewCold { cold: cold.len, needed });
        }
        let beta = 1.0 - alpha;
        let weights = match side {
            HotSide::Sender => vec![(alpha, hot, cold), (beta, cold, cold)],
            HotSide::Receiver => vec![(alpha, cold, hot), (beta, cold, cold)],
            HotSide::Both => vec![
                (alpha * alpha * hot.distinct(), hot, hot),
                (alpha * beta, hot, cold),
                (beta * alpha, cold, hot),
                (beta * beta * cold.distinct(), cold, cold),
            ],
        };
        Self::weighted(&weights).ok_or(ConfigError::OneHotForBoth)
    }

    /// Turns weights into thresholds. Only the four IEEE operations are used, which give the same bits everywhere.
    fn weighted(weights: &[(f64, Pool, Pool)]) -> Option<Self> {
        let total: f64 = weights.iter().map(|(weight, ..)| weight).sum();
        let mut reached = 0.0;
        let mut classes: Vec<_> = weights
            .iter()
            .filter(|(weight, ..)| *weight > 0.0)
            .map(|&(weight, from, to)| {
                reached += weight;
                ((reached / total * WHOLE as f64) as u128, Class { from, to })
            })
            .collect();
        // Rounding must not leave a gap above the last class that can really be drawn.
        classes.last_mut()?.0 = WHOLE;
        Some(Self { classes })
    }

    /// Sender and receiver of the next transfer; never equal. O(1), at most four comparisons.
    #[inline]
    fn draw(&self, rng: &mut Rng) -> (u32, u32) {
        let word = u128::from(rng.word());
        let last = self.classes.len() - 1;
        let at = self.classes[..last].iter().position(|(threshold, _)| word < *threshold).unwrap_or(last);
        let (_, Class { from, to }) = self.classes[at];
        let sender = from.start + rng.below(from.len);
        let receiver = if from == to {
            // Uniform over the others: the last address takes the sender's place.
            let other = to.start + rng.below(to.len - 1);
            other + u64::from(other >= sender)
        } else {
            to.start + rng.below(to.len)
        };
        // Positions stay below `accounts`, which is at most 2^32 - 1.
        (sender as u32, receiver as u32)
    }
}

impl Pool {
    /// Probability that two independent draws from the pool differ.
    fn distinct(self) -> f64 {
        if self.len < 2 { 0.0 } else { 1.0 - 1.0 / self.len as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skew(accounts: u64, alpha: f64, gamma: u64, hot: HotSide) -> Result<Skew, ConfigError> {
        Skew::new(&TransferLoad { accounts, alpha, gamma, hot, ..Default::default() })
    }

    #[test]
    fn pairs_that_cannot_be_drawn_are_refused() {
        use HotSide::{Both, Receiver, Sender};
        for alpha in [-0.1, 1.1, f64::INFINITY, f64::NAN] {
            assert!(matches!(skew(9, alpha, 1, Sender), Err(ConfigError::Alpha { .. })));
        }
        for gamma in [0, 10] {
            assert_eq!(skew(9, 0.5, gamma, Both).unwrap_err(), ConfigError::Gamma { gamma, accounts: 9 });
            assert!(skew(9, 0.0, gamma, Both).is_ok(), "gamma means nothing without alpha");
        }
        for side in [Sender, Receiver] {
            assert_eq!(skew(9, 0.5, 8, side).unwrap_err(), ConfigError::TooFewCold { cold: 1, needed: 2 });
            assert_eq!(skew(9, 1.0, 9, side).unwrap_err(), ConfigError::TooFewCold { cold: 0, needed: 1 });
            assert!(skew(9, 0.5, 7, side).is_ok() && skew(9, 1.0, 8, side).is_ok());
        }
        assert_eq!(skew(9, 0.5, 9, Both).unwrap_err(), ConfigError::TooFewCold { cold: 0, needed: 1 });
        assert_eq!(skew(9, 1.0, 1, Both).unwrap_err(), ConfigError::OneHotForBoth);
        assert!(skew(9, 1.0, 9, Both).is_ok() && skew(9, 1.0, 2, Both).is_ok() && skew(2, 0.5, 1, Both).is_ok());
    }

    #[test]
    fn a_law_beside_alpha_or_without_an_exponent_is_refused() {
        let law = |zipf, alpha| Skew::new(&TransferLoad { accounts: 9, alpha, zipf: Some(zipf), ..Default::default() });
        assert!(law(1.0, 0.0).is_ok());
        assert_eq!(law(1.0, 0.5).unwrap_err(), ConfigError::ZipfAndAlpha { alpha: 0.5 });
        assert_eq!(law(0.0, 0.0).unwrap_err(), ConfigError::Zipf { exponent: 0.0 });
        assert_eq!(law(5.0, 0.0).unwrap_err(), ConfigError::Zipf { exponent: 5.0 });
        let alone = TransferLoad { accounts: 1, zipf: Some(1.0), ..Default::default() };
        assert_eq!(Skew::new(&alone).unwrap_err(), ConfigError::Accounts { accounts: 1 });
    }

    #[test]
    fn the_sides_of_a_law_differ_and_end_for_the_steepest() {
        for accounts in [2, 1_000] {
            let skew = Skew::new(&TransferLoad { accounts, zipf: Some(4.0), ..Default::default() }).unwrap();
            let mut rng = Rng::new(4);
            for _ in 0..10_000 {
                let (from, to) = skew.draw(&mut rng);
                assert!(from != to && u64::from(from.max(to)) < accounts);
            }
        }
    }

    #[test]
    fn classes_match_redrawing_until_distinct() {
        // Small pools, where the correction matters: 3 hot and 2 cold accounts.
        let (accounts, alpha, gamma) = (5, 0.7, 3);
        let by_class = skew(accounts, alpha, gamma, HotSide::Both).unwrap();
        let (mut a, mut b) = (Rng::new(1), Rng::new(2));
        let mut counts = [[[0f64; 2]; 5]; 5];
        let side = |rng: &mut Rng| {
            if rng.below(10) < 7 { rng.below(gamma) } else { gamma + rng.below(accounts - gamma) }
        };
        let rounds = 400_000;
        for _ in 0..rounds {
            let (from, to) = by_class.draw(&mut a);
            counts[from as usize][to as usize][0] += 1.0;
            let (from, to) = loop {
                let pair = (side(&mut b), side(&mut b));
                if pair.0 != pair.1 {
                    break pair;
                }
            };
            counts[from as usize][to as usize][1] += 1.0;
        }
        for (from, row) in counts.iter().enumerate() {
            for (to, [ours, theirs]) in row.iter().enumerate() {
                // The difference of two such counts has a variance below their sum.
                assert!((ours - theirs).abs() <= 5.0 * (ours + theirs).sqrt(), "{from}->{to}: {ours} {theirs}");
                assert_eq!(from == to, *ours == 0.0);
            }
        }
    }

    #[test]
    fn an_alpha_next_to_one_costs_nothing_and_stays_possible() {
        let skew = skew(2, 1.0 - f64::EPSILON, 1, HotSide::Both).unwrap();
        let mut rng = Rng::new(3);
        for _ in 0..1_000 {
            let (from, to) = skew.draw(&mut rng);
            assert_eq!(from + to, 1);
        }
    }
}
