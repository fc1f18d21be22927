//! Ratios with intervals, and verdicts on them. Pure: the seed is an argument.
//!
//! Noise multiplies times, so logarithms are averaged and resampled: the mean of logarithms is that of ratios, and a ratio
//! and its inverse get the same verdict. Intervals are 95 % percentile bootstraps (Efron 1979). With five runs or fewer they
//! are too narrow, which no method mends.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::Serialize;

/// Quantiles of the resampled ratios at the ends of an interval.
const TAILS: (f64, f64) = (0.025, 0.975);

/// Settings of the bootstrap, and the practical floor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Method {
    pub(crate) resamples: usize,
    pub(crate) seed: u64,
    /// Ratios from 1 ÷ (1 + floor) to 1 + floor are no difference.
    pub(crate) floor: f64,
}

/// A ratio of two means, and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Estimate {
    /// Mean of the candidate ÷ that of the baseline.
    pub(crate) ratio: f64,
    /// Lower end of the interval. Null for a single run, which has none.
    pub(crate) low: Option<f64>,
    /// Upper end of the interval.
    pub(crate) high: Option<f64>,
    /// Position of the interval.
    pub(crate) verdict: Verdict,
}

/// Position of an interval relative to the practical floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// The interval is above the floor.
    Higher,
    /// The interval is below the floor.
    Lower,
    /// The interval is within the floor.
    NoDifference,
    /// The interval crosses the floor: more runs would tell.
    Undecided,
    /// There is no interval.
    SingleRun,
}

impl Method {
    /// Estimate from ratios of paired runs; `None` if there are none, or a ratio is not positive.
    pub(crate) fn paired(&self, ratios: &[f64]) -> Option<Estimate> {
        let logs = logarithms(ratios)?;
        let mut rng = self.rng();
        self.estimate(mean(&logs), logs.len(), || resampled(&logs, &mut rng))
    }

    /// Estimate from two groups of unpaired runs.
    pub(crate) fn unpaired(&self, candidate: &[f64], baseline: &[f64]) -> Option<Estimate> {
        let (candidate, baseline) = (logarithms(candidate)?, logarithms(baseline)?);
        let mut rng = self.rng();
        let runs = candidate.len().min(baseline.len());
        self.estimate(mean(&candidate) - mean(&baseline), runs, || {
            resampled(&candidate, &mut rng) - resampled(&baseline, &mut rng)
        })
    }

    fn rng(&self) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.seed)
    }

    fn estimate(&self, log: f64, runs: usize, resample: impl FnMut() -> f64) -> Option<Estimate> {
        let ratio = log.exp();
        if runs < 2 {
            return Some(Estimate { ratio, low: None, high: None, verdict: Verdict::SingleRun });
        }
        let mut drawn: Vec<f64> = core::iter::repeat_with(resample).take(self.resamples.max(1)).collect();
        drawn.sort_by(f64::total_cmp);
        let at = |share: f64| drawn[((drawn.len() - 1) as f64 * share).round() as usize].exp();
        let (low, high) = (at(TAILS.0), at(TAILS.1));
        Some(Estimate { ratio, low: Some(low), high: Some(high), verdict: self.verdict(low, high) })
    }

    fn verdict(&self, low: f64, high: f64) -> Verdict {
        // A ratio and its inverse are either both within the floor or both outside.
        let (below, above) = (1.0 / (1.0 + self.floor), 1.0 + self.floor);
        if low > above {
            Verdict::Higher
        } else if high < below {
            Verdict::Lower
        } else if low >= below && high <= above {
            Verdict::NoDifference
        } else {
            Verdict::Undecided
        }
    }
}

/// Logarithms of `figures`; `None` unless there are some and all are positive.
fn logarithms(figures: &[f64]) -> Option<Vec<f64>> {
    let sound = !figures.is_empty() && figures.iter().all(|figure| figure.is_finite() && *figure > 0.0);
    sound.then(|| figures.iter().map(|figure| figure.ln()).collect())
}

fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}

fn resampled(figures: &[f64], rng: &mut ChaCha8Rng) -> f64 {
    (0..figures.len()).map(|_| figures[rng.random_range(0..figures.len())]).sum::<f64>() / figures.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHOD: Method = Method { resamples: 4000, seed: 7, floor: 0.01 };

    #[test]
    fn equal_pairs_are_no_difference_and_their_interval_a_point() {
        let estimate = METHOD.paired(&[1.0; 6]).unwrap();
        assert_eq!(estimate, Estimate { ratio: 1.0, low: Some(1.0), high: Some(1.0), verdict: Verdict::NoDifference });
        let double = METHOD.paired(&[2.0, 2.0]).unwrap();
        assert!((double.ratio - 2.0).abs() < 1e-12 && double.verdict == Verdict::Higher);
        assert_eq!(METHOD.paired(&[0.5, 0.5]).unwrap().verdict, Verdict::Lower);
    }

    #[test]
    fn noise_is_undecided_and_a_single_pair_has_no_interval() {
        let noisy = METHOD.paired(&[0.9, 1.1, 0.95, 1.05]).unwrap();
        assert!(noisy.low.unwrap() < 1.0 && noisy.high.unwrap() > 1.0 && noisy.verdict == Verdict::Undecided);
        let single = METHOD.paired(&[1.5]).unwrap();
        assert_eq!((single.low, single.verdict), (None, Verdict::SingleRun));
        assert_eq!((METHOD.paired(&[]), METHOD.paired(&[1.0, 0.0]), METHOD.paired(&[f64::NAN])), (None, None, None));
    }

    #[test]
    fn a_ratio_and_its_inverse_say_the_same() {
        let ratios = [1.2, 1.25, 1.3, 1.21, 1.28];
        let inverse: Vec<f64> = ratios.iter().map(|ratio| 1.0 / ratio).collect();
        let (one, other) = (METHOD.paired(&ratios).unwrap(), METHOD.paired(&inverse).unwrap());
        assert!((one.ratio * other.ratio - 1.0).abs() < 1e-12);
        assert_eq!((one.verdict, other.verdict), (Verdict::Higher, Verdict::Lower));
        assert_eq!(METHOD.paired(&ratios), METHOD.paired(&ratios), "one seed, one interval");
    }

    #[test]
    fn the_floor_is_as_far_below_as_above() {
        let verdict = |low: f64, high: f64| Method { floor: 0.25, ..METHOD }.verdict(low, high);
        assert_eq!(verdict(1.0 / 1.25, 1.25), Verdict::NoDifference);
        // A quarter more is four fifths, and not three quarters.
        assert_eq!((verdict(0.77, 0.79), verdict(1.0 / 0.79, 1.0 / 0.77)), (Verdict::Lower, Verdict::Higher));
        assert_eq!((verdict(0.79, 1.0), verdict(1.0, 1.0 / 0.79)), (Verdict::Undecided, Verdict::Undecided));
    }

    #[test]
    fn an_even_drift_cancels_in_rounds_that_alternate() {
        // The machine slows by 3 % from run to run; the candidate is twice as fast.
        let speed = |slot: i32| 0.97f64.powi(slot);
        let ratios: Vec<f64> = (0..6)
            .map(|round| {
                let (first, second) = (speed(2 * round), speed(2 * round + 1));
                let (candidate, baseline) = if round % 2 == 0 { (second, first) } else { (first, second) };
                2.0 * candidate / baseline
            })
            .collect();
        assert!((METHOD.paired(&ratios).unwrap().ratio - 2.0).abs() < 1e-9);
    }

    #[test]
    fn intervals_hold_the_truth_about_as_often_as_they_say() {
        let seed = std::env::var("PHALANX_SEED").map_or(1, |seed| seed.parse().expect("a number"));
        println!("PHALANX_SEED={seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut held = 0;
        for trial in 0..400 {
            // Twelve draws make a figure that is nearly normal.
            let mut noisy = |truth: f64| -> f64 {
                let sum: f64 = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
                truth * (0.05 * sum).exp()
            };
            let (candidate, baseline): (Vec<f64>, Vec<f64>) = (0..16).map(|_| (noisy(1.5), noisy(1.0))).unzip();
            let method = Method { resamples: 400, seed: trial, floor: 0.0 };
            let estimate = method.unpaired(&candidate, &baseline).unwrap();
            held += usize::from(estimate.low.unwrap() <= 1.5 && 1.5 <= estimate.high.unwrap());
        }
        // 95 of 100 in the long run; with sixteen runs a percentile interval holds some 93.
        assert!((350..400).contains(&held), "{held} of 400");
    }
}
