//! Keys, values, and the order in which blocks change them, from a seed.

use super::config::{Skew, StoreBench, Work};
use phalanx::merkle::HashFn;
use rayon::prelude::*;

/// Pseudo-random numbers from a seed (splitmix64).
struct Numbers(u64);

impl Numbers {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a rank below `keys`.
    fn rank(&mut self, skew: Skew, keys: usize) -> usize {
        match skew {
            Skew::Uniform => ((u128::from(self.next()) * keys as u128) >> 64) as usize,
            Skew::Zipf(exponent) => {
                // The inverse of the continuous distribution with density x^-exponent on 1..keys+1.
                let uniform = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
                let end = keys as f64 + 1.0;
                let x = if (exponent - 1.0).abs() < 1e-9 {
                    end.powf(uniform)
                } else {
                    let power = 1.0 - exponent;
                    (1.0 + uniform * (end.powf(power) - 1.0)).powf(1.0 / power)
                };
                (x as usize - 1).min(keys - 1)
            }
        }
    }
}

/// Key of a rank, as long as an address.
pub(super) fn key(rank: u64) -> [u8; 20] {
    let mut numbers = Numbers(rank);
    let mut key = [0; 20];
    for part in key.chunks_mut(8) {
        part.copy_from_slice(&numbers.next().to_le_bytes()[..part.len()]);
    }
    key
}

/// Value about as long as an account's nonce and balance.
pub(super) fn value(number: u64) -> [u8; 16] {
    let mut value = [7; 16];
    value[..8].copy_from_slice(&number.to_be_bytes());
    value
}

/// All ranks, ordered by the first two bytes of their keys' hashes. Allocates nothing but the result: freed pages would be
/// counted as the state's later.
pub(super) fn by_hash(keys: usize, hash: HashFn) -> Vec<u32> {
    const PART: usize = 1 << 16;
    let near = |rank: u32| {
        let [a, b, ..] = hash.key(&key(u64::from(rank)));
        u16::from_be_bytes([a, b])
    };
    let each = |see: &mut dyn FnMut(u32, usize)| {
        for part in (0..keys).step_by(PART) {
            let ranks = part as u32..keys.min(part + PART) as u32;
            let near: Vec<u16> = ranks.clone().into_par_iter().with_min_len(1 << 12).map(near).collect();
            ranks.zip(near).for_each(|(rank, near)| see(rank, usize::from(near)));
        }
    };
    let mut starts = vec![0u32; 1 << 16];
    each(&mut |_, near| starts[near] += 1);
    let mut before = 0;
    for count in &mut starts {
        before += core::mem::replace(count, before);
    }
    let mut order = vec![0; keys];
    each(&mut |rank, near| {
        order[starts[near] as usize] = rank;
        starts[near] += 1;
    });
    order
}

/// Draws the keys of blocks.
pub(super) struct Draw<'c> {
    config: &'c StoreBench,
    numbers: Numbers,
    /// Keys that were created or deleted so far.
    next: usize,
}

impl<'c> Draw<'c> {
    pub(super) const fn new(config: &'c StoreBench) -> Self {
        Self { config, numbers: Numbers(config.seed), next: 0 }
    }

    /// Ranks of keys that a block updates.
    pub(super) fn updated(&mut self) -> Vec<usize> {
        (0..self.config.updates).map(|_| self.numbers.rank(self.config.skew, self.config.keys)).collect()
    }

    /// Ranks of keys that a measured block changes. Keys are in no order of their ranks.
    pub(super) fn measured(&mut self) -> Vec<usize> {
        let StoreBench { keys, updates, work, .. } = *self.config;
        let first = match work {
            Work::Update => return self.updated(),
            Work::Create => keys + self.next,
            Work::Delete => self.next,
        };
        self.next += updates;
        (first..first + updates).collect()
    }
}
