//! Steadiness of a run: a test for a trend in the rate of its blocks. Pure.
//!
//! The first half of a run warms caches, maps memory and fills the writer's queue. If the rate still drifts in the second
//! half, its mean is not the machine's speed.

use crate::result::{Second, Steady};

/// Two-sided 1 % of the normal distribution.
const Z: f64 = 2.576;

/// Drift, as a share of the median rate, up to which a run counts as steady however significant it is.
const DRIFT: f64 = 0.05;

/// Minimum number of blocks in the second half to tell a trend from chance.
const MIN_BLOCKS: usize = 10;

/// Maximum number of rates that are compared pairwise; of more, neighbours are averaged.
const MAX_RATES: usize = 400;

/// Judges transactions per block and commit times, in seconds since the start, both in order.
///
/// A run is not steady if the rates of the second half of its blocks have a trend by the test of Mann and Kendall, at 1 %,
/// *and* the slope of Theil and Sen moves the rate by over 5 % from the first to the last of them. A move by as much that
/// is not significant gives no verdict. Both tests use ranks, so that a single pause is no trend. O(blocks²), of 400
/// blocks at most.
pub(crate) fn judge(txs: &[u64], commits: &[f64]) -> Steady {
    let half = txs.len() / 2;
    let tps = rate_after(half, txs, commits);
    let starts = core::iter::once(0.0).chain(commits.iter().copied());
    let rates = txs.iter().zip(commits.iter().zip(starts)).map(|(txs, (end, start))| *txs as f64 / (end - start));
    let rates: Vec<f64> = rates.skip(half).filter(|rate| rate.is_finite()).collect();
    let blocks = rates.len();
    if blocks < MIN_BLOCKS {
        return Steady { steady: None, blocks, drift: 0.0, z: 0.0, tps };
    }
    let size = rates.len().div_ceil(MAX_RATES);
    let rates: Vec<f64> = rates.chunks(size).map(|some| some.iter().sum::<f64>() / some.len() as f64).collect();
    let (z, middle) = (mann_kendall(&rates), median(&rates));
    if middle <= 0.0 {
        // Most blocks have no succeeded transaction: there is no rate to drift from.
        return Steady { steady: None, blocks, drift: 0.0, z, tps };
    }
    let drift = theil_sen(&rates) * (rates.len() - 1) as f64 / middle;
    let steady = match (drift.abs() <= DRIFT, z.abs() <= Z) {
        (true, _) => Some(true),
        (false, false) => Some(false),
        // The noise is too large for so few blocks.
        (false, true) => None,
    };
    Steady { steady, blocks, drift, z, tps }
}

/// Transactions per second of the blocks from index `first` on.
fn rate_after(first: usize, txs: &[u64], commits: &[f64]) -> f64 {
    let (start, end) =
        (first.checked_sub(1).map_or(0.0, |before| commits[before]), commits.last().copied().unwrap_or(0.0));
    let rate = txs[first..].iter().sum::<u64>() as f64 / (end - start);
    if rate.is_finite() { rate } else { 0.0 }
}

/// The normal deviate of the number of rises minus falls among all pairs (Mann 1945, Kendall 1955; without ties).
fn mann_kendall(rates: &[f64]) -> f64 {
    let n = rates.len() as f64;
    let score: f64 = pairs(rates)
        .map(|(first, second, _)| (second - first).partial_cmp(&0.0).map_or(0.0, |o| f64::from(o as i8)))
        .sum();
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    // Continuity: the score changes in steps of two.
    (score - score.signum() * score.abs().min(1.0)) / deviation
}

/// The median of the slopes of all pairs (Theil 1950, Sen 1968).
fn theil_sen(rates: &[f64]) -> f64 {
    median(&pairs(rates).map(|(first, second, apart)| (second - first) / apart).collect::<Vec<_>>())
}

fn pairs(rates: &[f64]) -> impl Iterator<Item = (f64, f64, f64)> {
    rates.iter().enumerate().flat_map(move |(i, first)| {
        rates[i + 1..].iter().zip(1u32..).map(move |(second, apart)| (*first, *second, f64::from(apart)))
    })
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Transactions in every second since the start; a block's are spread evenly over the time since the block before. The last
/// second may be shorter.
pub(crate) fn per_second(txs: &[u64], commits: &[f64]) -> Vec<Second> {
    let Some(end) = commits.last().copied().filter(|end| end.is_finite() && *end > 0.0) else { return Vec::new() };
    let mut seconds = vec![0.0; end.ceil() as usize];
    let mut start = 0.0;
    for (txs, end) in txs.iter().zip(commits) {
        let rate = *txs as f64 / (end - start);
        let mut at: f64 = start;
        while at < *end {
            let until = (at.floor() + 1.0).min(*end);
            seconds[at as usize] += rate * (until - at);
            at = until;
        }
        start = *end;
    }
    let t = |index: usize| (index as f64 + 1.0).min(end);
    let second = |(index, txs): (usize, f64)| Second { t: t(index), txs, per_second: txs / (t(index) - index as f64) };
    seconds.into_iter().enumerate().map(second).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commit times of blocks of 1000 transactions at these rates.
    fn run(rates: impl Iterator<Item = f64>) -> (Vec<u64>, Vec<f64>) {
        let mut now = 0.0;
        let commits: Vec<f64> = rates
            .map(|rate| {
                now += 1000.0 / rate;
                now
            })
            .collect();
        (vec![1000; commits.len()], commits)
    }

    fn verdict(rates: impl Iterator<Item = f64>) -> Steady {
        let (txs, commits) = run(rates);
        judge(&txs, &commits)
    }

    /// Noise between -1 and 1, a function of the index.
    fn noise(index: u32) -> f64 {
        f64::from(index.wrapping_mul(2_654_435_761) >> 16) / 32768.0 - 1.0
    }

    #[test]
    fn noise_and_a_slow_start_are_steady_and_a_decline_is_not() {
        let noisy = verdict((0..100).map(|i| 5000.0 * (1.0 + 0.03 * noise(i))));
        assert_eq!((noisy.steady, noisy.blocks), (Some(true), 50), "{noisy:?}");
        assert!((4900.0..5100.0).contains(&noisy.tps), "{noisy:?}");
        // Fast and slow blocks alternate, the last is fast: no trend, and no stable rate.
        let wild = verdict(
            (0..24).map(|i| if [14, 17, 20, 22, 23].contains(&i) { 9000.0 } else { 3000.0 + f64::from(i) * 60.0 }),
        );
        assert!(wild.steady != Some(true), "{wild:?}");
        let warming = verdict((0..100).map(|i| if i < 40 { 1000.0 } else { 5000.0 + 10.0 * noise(i) }));
        assert_eq!(warming.steady, Some(true), "{warming:?}");
        assert!((4950.0..5050.0).contains(&warming.tps), "what came before does not count: {warming:?}");
        let falling = verdict((0..100).map(|i| 5000.0 * (1.0 - f64::from(i) / 300.0 + 0.02 * noise(i))));
        assert!(falling.steady == Some(false) && falling.drift < -0.15 && falling.z < -Z, "{falling:?}");
        let rising = verdict((0..1000).map(|i| 5000.0 * (1.0 + f64::from(i) / 3000.0 + 0.1 * noise(i))));
        assert!(rising.steady == Some(false) && rising.drift > 0.05, "{rising:?}");
    }

    #[test]
    fn a_sure_but_small_drift_and_a_pause_are_steady() {
        let small = verdict((0..200).map(|i| 5000.0 * (1.0 + f64::from(i) / 10_000.0)));
        assert!(small.steady == Some(true) && small.z > Z, "{small:?}");
        let pause = verdict((0..100).map(|i| if i == 90 { 10.0 } else { 5000.0 + 50.0 * noise(i) }));
        assert_eq!(pause.steady, Some(true), "{pause:?}");
    }

    #[test]
    fn short_runs_are_not_judged() {
        assert_eq!((judge(&[], &[]).steady, judge(&[], &[]).tps), (None, 0.0));
        assert_eq!(verdict((0..19).map(f64::from)).steady, None);
        assert!(verdict((1..21).map(f64::from)).steady.is_some());
    }

    #[test]
    fn blocks_without_a_success_have_no_rate_to_judge() {
        let commits: Vec<f64> = (1..=40).map(f64::from).collect();
        let some: Vec<u64> = (0..40).map(|block| if block % 3 == 0 { 1000 } else { 0 }).collect();
        for txs in [vec![0; 40], some] {
            let judged = judge(&txs, &commits);
            assert!(judged.steady.is_none() && judged.drift.is_finite() && judged.z.is_finite(), "{judged:?}");
        }
    }

    #[test]
    fn seconds_add_up_to_all_transactions() {
        let (txs, commits) = run((0..37).map(|i| 700.0 + 100.0 * noise(i)));
        let seconds = per_second(&txs, &commits);
        assert!((seconds.iter().map(|second| second.txs).sum::<f64>() - 37_000.0).abs() < 1e-6);
        assert_eq!(seconds.len(), commits[36].ceil() as usize);
        assert!(seconds.iter().all(|second| (550.0..850.0).contains(&second.per_second)), "{seconds:?}");
        assert_eq!(seconds.last().map(|second| second.t), commits.last().copied());
        assert!(per_second(&[], &[]).is_empty());
        // A block of three seconds fills each second alike.
        let long = per_second(&[300], &[3.0]);
        assert!(long.len() == 3 && long.iter().all(|second| (second.txs - 100.0).abs() < 1e-9), "{long:?}");
    }
}
