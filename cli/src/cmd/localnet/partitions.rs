//! Partitions of a network into two groups, drawn from a seed. Each heals, and the next waits until every validator has a block
//! since.

use super::{height, links::Links, validator::Validator};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::time::{Duration, Instant};

/// Interval at which heights are asked for once it is time.
const INTERVAL: Duration = Duration::from_millis(200);

/// Plan of partitions.
#[derive(Debug)]
pub(super) struct Partitions {
    lasting: Duration,
    next: Instant,
    rng: ChaCha8Rng,
    /// Number of partitions so far.
    count: u64,
    is_split: bool,
    /// Heights of the validators when the last partition has healed.
    heights: Vec<u64>,
}

impl Partitions {
    /// Plans partitions that last so long, with as much time in between.
    pub(super) fn new(lasting: Duration, seed: u64) -> Self {
        let (next, rng) = (Instant::now() + lasting, ChaCha8Rng::seed_from_u64(seed));
        Self { lasting, next, rng, count: 0, is_split: false, heights: Vec::new() }
    }

    /// Splits or heals the network, if it is time, and says so.
    pub(super) fn strike(&mut self, links: &Links, validators: &[Validator]) -> Option<String> {
        if Instant::now() < self.next {
            return None;
        }
        if self.is_split {
            links.split(|_| true);
            (self.is_split, self.next) = (false, Instant::now() + self.lasting);
            self.heights = validators.iter().filter_map(|validator| height::of(validator.place().rpc)).collect();
            return Some(format!("partition {} heals\n", self.count));
        }
        self.next = Instant::now() + INTERVAL;
        let heights: Option<Vec<_>> = validators.iter().map(|validator| height::of(validator.place().rpc)).collect();
        let heights = heights?;
        let highest = self.heights.iter().copied().max().unwrap_or_default();
        if validators.len() < 2 || heights.iter().any(|height| *height <= highest) {
            return None;
        }
        let groups = groups(&mut self.rng, validators.len());
        // A node that joins is in the first group.
        links.split(|place| groups.get(place).copied().unwrap_or(true));
        (self.is_split, self.next, self.count) = (true, Instant::now() + self.lasting, self.count + 1);
        let names = |of: bool| {
            let members = groups.iter().enumerate().filter(|(_, group)| **group == of);
            members.map(|(place, _)| place.to_string()).collect::<Vec<_>>().join(" ")
        };
        Some(format!("partition {}: validators {} | {}\n", self.count, names(true), names(false)))
    }
}

/// Two groups, none of which is empty: whether a validator is in the first one.
fn groups(rng: &mut ChaCha8Rng, count: usize) -> Vec<bool> {
    loop {
        let groups: Vec<bool> = (0..count).map(|_| rng.random_bool(0.5)).collect();
        if groups.contains(&true) && groups.contains(&false) {
            return groups;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_group_is_empty_and_all_sizes_occur() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let sizes: Vec<usize> = (0..100).map(|_| groups(&mut rng, 4).iter().filter(|group| **group).count()).collect();
        assert!((1..4).all(|size| sizes.contains(&size)) && sizes.iter().all(|size| (1..4).contains(size)));
    }
}
