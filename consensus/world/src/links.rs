//! Links between replicas: delay, jitter, loss, duplicates and cuts.

use phalanx_bft::Micros;
use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};

/// Links of a world, all alike but for what is named.
#[derive(Clone, Debug)]
pub struct Links {
    /// Delay of every link in one direction.
    pub delay: Micros,
    /// Additional delay of all that a replica sends.
    pub far: BTreeMap<usize, Micros>,
    /// Random addition to it, at most.
    pub jitter: Micros,
    /// Messages lost, in per mille.
    pub lost: u32,
    /// Messages doubled, in per mille.
    pub doubled: u32,
    /// Replicas that reach only each other, and the others only each other.
    pub cut: BTreeSet<usize>,
}

impl Default for Links {
    fn default() -> Self {
        Self { delay: 1_000, far: BTreeMap::new(), jitter: 0, lost: 0, doubled: 0, cut: BTreeSet::new() }
    }
}

impl Links {
    /// Links of this delay, without a fault.
    #[must_use]
    pub fn after(delay: Micros) -> Self {
        Self { delay, ..Self::default() }
    }

    /// Returns true if no cut lies between two replicas.
    #[must_use]
    pub fn connected(&self, a: usize, b: usize) -> bool {
        self.cut.contains(&a) == self.cut.contains(&b)
    }

    /// Delays of the copies of a message that arrive: none if it is lost, two if it is doubled.
    pub fn copies(&self, from: usize, to: usize, rng: &mut ChaCha8Rng) -> Vec<Micros> {
        if !self.connected(from, to) || rng.random_ratio(self.lost, 1000) {
            return Vec::new();
        }
        let copies = 1 + usize::from(rng.random_ratio(self.doubled, 1000));
        let mut late = || if self.jitter == 0 { 0 } else { rng.random_range(0..=self.jitter) };
        let delay = self.delay + self.far.get(&from).copied().unwrap_or(0);
        (0..copies).map(|_| delay + late()).collect()
    }

    /// Ends loss, duplicates and cuts, and bounds the jitter by the delay.
    pub fn heal(&mut self) {
        (self.lost, self.doubled, self.jitter) = (0, 0, self.jitter.min(self.delay));
        self.cut.clear();
    }
}
