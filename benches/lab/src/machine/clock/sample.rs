//! Choice of the timed blocks, and the weight of each: untimed blocks are assumed to be like the next timed one.

/// The first blocks are timed whatever their size, so that a short run is timed in full.
const FIRST: u64 = 64;

/// Transactions of a block beside which reading clocks, some ten microseconds, is negligible.
const LARGE: u64 = 1024;

/// Maximum distance between timed blocks.
const APART: u64 = 64;

/// Blocks so far.
#[derive(Debug, Default)]
pub(super) struct Sample {
    blocks: u64,
    txs: u64,
    /// Blocks since the last timed one.
    since: u64,
    /// Transactions that timed blocks account for.
    counted: u64,
    timed: u64,
}

impl Sample {
    /// Begins a block of `txs` transactions. Returns its weight if it is to be timed: all transactions since the last timed
    /// block ÷ its own.
    pub(super) fn next(&mut self, txs: u64) -> Option<f64> {
        (self.blocks, self.txs, self.since) = (self.blocks + 1, self.txs + txs, self.since + 1);
        let apart = if self.blocks <= FIRST { 1 } else { (LARGE / txs.max(1)).clamp(1, APART) };
        if self.since < apart || (txs == 0 && self.blocks > FIRST) {
            return None;
        }
        let times = if self.blocks <= FIRST { 1.0 } else { (self.txs - self.counted) as f64 / txs as f64 };
        (self.since, self.counted, self.timed) = (0, self.txs, self.timed + 1);
        Some(times)
    }

    /// Number of timed blocks.
    pub(super) const fn timed(&self) -> u64 {
        self.timed
    }

    /// Factor for the sum over timed blocks: no timed block accounts for the last untimed ones.
    pub(super) const fn scale(&self) -> f64 {
        if self.counted == 0 { 1.0 } else { self.txs as f64 / self.counted as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};

    /// Number of timed blocks, and the estimated total if every transaction costs one.
    fn sampled(sizes: &[u64]) -> (u64, f64) {
        let mut sample = Sample::default();
        let spent: f64 = sizes.iter().map(|txs| sample.next(*txs).unwrap_or_default() * *txs as f64).sum();
        (sample.timed(), spent * sample.scale())
    }

    #[test]
    fn every_transaction_counts_once() {
        for seed in 0..50 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let most = [0, 1, 10, 200, 2000][seed as usize % 5];
            let sizes: Vec<u64> = (0..rng.random_range(1..2000)).map(|_| rng.random_range(0..=most)).collect();
            let (_, spent) = sampled(&sizes);
            let all = sizes.iter().sum::<u64>() as f64;
            assert!((spent - all).abs() <= all * 1e-9, "seed {seed}: {spent} of {all}");
        }
    }

    #[test]
    fn large_blocks_and_short_runs_are_timed_in_full_and_small_blocks_seldom() {
        assert_eq!(sampled(&[50_000; 100]).0, 100);
        assert_eq!(sampled(&[1; 64]).0, 64);
        assert_eq!(sampled(&[1; 64 * 65]).0, 64 + 64);
        assert_eq!(sampled(&[128; 64 + 80]).0, 64 + 10);
        assert_eq!(sampled(&[0; 1000]).0, 64);
    }
}
