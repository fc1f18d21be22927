//! Kills of processes, drawn from a seed. Each waits until the network has recovered from the one before.

use super::{
    height,
    validator::{Kind, Validator},
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::time::{Duration, Instant};

/// Interval at which heights are asked for once it is time.
const INTERVAL: Duration = Duration::from_millis(200);

/// Plan of kills.
#[derive(Debug)]
pub(super) struct Faults {
    every: Duration,
    next: Instant,
    rng: ChaCha8Rng,
    /// Number of kills so far.
    count: u64,
    /// Heights of the validators at the last kill; empty before the first.
    heights: Vec<u64>,
}

impl Faults {
    pub(super) fn new(every: Duration, seed: u64) -> Self {
        let (next, rng) = (Instant::now() + every, ChaCha8Rng::seed_from_u64(seed));
        Self { every, next, rng, count: 0, heights: Vec::new() }
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Kills a process, if it is time, all processes run, and every validator has a block since the last kill. Returns its
    /// kind and its validator.
    pub(super) fn strike(&mut self, validators: &mut [Validator]) -> Option<(Kind, usize)> {
        if Instant::now() < self.next || !validators.iter().all(Validator::is_whole) {
            return None;
        }
        self.next = Instant::now() + INTERVAL;
        let heights: Option<Vec<_>> = validators.iter().map(|validator| height::of(validator.place().rpc)).collect();
        let heights = heights.filter(|heights| has_grown(&self.heights, heights))?;
        let place = self.rng.random_range(0..validators.len());
        let has_comet = validators[place].place().comet_rpc().is_some();
        let kind = if has_comet && self.count.is_multiple_of(2) { Kind::Comet } else { Kind::Node };
        if !validators[place].kill(kind) {
            return None;
        }
        (self.next, self.heights) = (Instant::now() + self.every, heights);
        self.count += 1;
        Some((kind, place))
    }
}

/// True if every height is above that of the last kill.
fn has_grown(last: &[u64], now: &[u64]) -> bool {
    now.iter().enumerate().all(|(place, height)| *height > last.get(place).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_validator_that_has_not_recovered_holds_back_the_next_kill() {
        assert!(!has_grown(&[], &[1, 0]));
        assert!(has_grown(&[], &[1, 1]));
        assert!(!has_grown(&[7, 5], &[9, 5]));
        assert!(has_grown(&[7, 5], &[8, 6]));
    }
}
