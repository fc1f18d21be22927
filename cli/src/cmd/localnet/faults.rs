//! Kills of processes, drawn from a seed.

use super::validator::{Kind, Validator};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::time::{Duration, Instant};

/// Plan of kills.
#[derive(Debug)]
pub(super) struct Faults {
    every: Duration,
    next: Instant,
    rng: ChaCha8Rng,
    /// Number of kills so far.
    count: u64,
}

impl Faults {
    pub(super) fn new(every: Duration, seed: u64) -> Self {
        Self { every, next: Instant::now() + every, rng: ChaCha8Rng::seed_from_u64(seed), count: 0 }
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Kills a process, if it is time. Returns its kind and its validator.
    pub(super) fn strike(&mut self, validators: &mut [Validator]) -> Option<(Kind, usize)> {
        if Instant::now() < self.next {
            return None;
        }
        self.next = Instant::now() + self.every;
        let kind = if self.count.is_multiple_of(2) { Kind::Comet } else { Kind::Node };
        let place = self.rng.random_range(0..validators.len());
        if !validators[place].kill(kind) {
            return None;
        }
        self.count += 1;
        Some((kind, place))
    }
}
