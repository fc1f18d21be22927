#![doc = include_str!("../README.md")]

use std::collections::HashSet;

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Maximum number of inputs that are kept.
const MOST_KEPT: usize = 4096;

/// Maximum length of an input, in bytes.
const MAX_LEN: usize = 1 << 16;

/// Numbers at which lengths, positions and counts change their meaning.
const EDGES: [u64; 12] = [0, 1, 2, 7, 8, 31, 32, 255, 2047, 2048, u32::MAX as u64, u64::MAX];

/// Stream of mutated inputs, defined by a seed, a corpus and what it learns.
#[derive(Debug)]
pub struct Fuzzer {
    rng: ChaCha8Rng,
    kept: Vec<Vec<u8>>,
    seen: HashSet<u64>,
    input: Vec<u8>,
    /// Corpus entries that are still to be handed out unchanged.
    fresh: usize,
}

impl Fuzzer {
    /// Creates a stream from a corpus, which is handed out first.
    ///
    /// # Panics
    /// If the corpus is empty.
    pub fn new(seed: u64, corpus: Vec<Vec<u8>>) -> Self {
        assert!(!corpus.is_empty(), "a corpus");
        let fresh = corpus.len();
        Self { rng: ChaCha8Rng::seed_from_u64(seed), kept: corpus, seen: HashSet::new(), input: Vec::new(), fresh }
    }

    /// Next input.
    pub fn input(&mut self) -> &[u8] {
        if let Some(at) = self.fresh.checked_sub(1) {
            self.fresh = at;
            self.input.clone_from(&self.kept[at]);
            return &self.input;
        }
        let base = self.rng.random_range(0..self.kept.len());
        self.input.clone_from(&self.kept[base]);
        for _ in 0..self.rng.random_range(1..5) {
            self.mutate();
        }
        self.input.truncate(MAX_LEN);
        &self.input
    }

    /// Reports how the target behaved on the last input, which is kept if the behaviour is new. Returns true if it is
    /// kept.
    pub fn learn(&mut self, behaviour: u64) -> bool {
        let new = self.seen.insert(behaviour) && self.kept.len() < MOST_KEPT;
        if new {
            self.kept.push(self.input.clone());
        }
        new
    }

    /// Number of behaviours seen.
    pub fn behaviours(&self) -> usize {
        self.seen.len()
    }

    fn mutate(&mut self) {
        let (rng, input) = (&mut self.rng, &mut self.input);
        let at = rng.random_range(0..=input.len());
        let most = 1usize << rng.random_range(0..9);
        let end = (at + rng.random_range(1..=most)).min(input.len());
        match rng.random_range(0..9) {
            0..2 if at < input.len() => input[at] ^= 1 << rng.random_range(0..8),
            2 if at < input.len() => input[at] = rng.random(),
            3 => {
                // A number at an edge of its meaning, or beside it.
                let width = [1, 2, 4, 8][rng.random_range(0..4)];
                let number =
                    EDGES[rng.random_range(0..EDGES.len())].wrapping_add(rng.random_range(0..3)).wrapping_sub(1);
                let bytes = number.to_be_bytes();
                for (to, byte) in input.iter_mut().skip(at).zip(&bytes[8 - width..]) {
                    *to = *byte;
                }
            }
            4 => drop(input.drain(at..end)),
            5 => {
                let copy = input[at..end].to_vec();
                let to = rng.random_range(0..=input.len());
                input.splice(to..to, copy);
            }
            6 => {
                let bytes: Vec<u8> = (0..rng.random_range(1..40)).map(|_| rng.random()).collect();
                input.splice(at..at, bytes);
            }
            7 => {
                let other = &self.kept[rng.random_range(0..self.kept.len())];
                let from = rng.random_range(0..=other.len());
                let to = (from + end - at).min(other.len());
                input.splice(at..end, other[from..to].iter().copied());
            }
            _ => input.truncate(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_defines_the_stream_and_new_behaviour_is_kept() {
        let run = |seed| {
            let mut fuzzer = Fuzzer::new(seed, vec![vec![7; 40], Vec::new()]);
            let mut all = Vec::new();
            for _ in 0..3000 {
                let input = fuzzer.input().to_vec();
                fuzzer.learn(input.first().copied().map_or(0, u64::from));
                all.push(input);
            }
            (all, fuzzer.behaviours())
        };
        let (first, behaviours) = run(1);
        assert!(behaviours > 100, "{behaviours}");
        assert_eq!(first, run(1).0);
        assert_ne!(first, run(2).0);
        assert_eq!(first[..2], [vec![], vec![7; 40]], "the corpus comes first");
        assert!(first.iter().any(|input| input.len() > 100) && first.iter().all(|input| input.len() <= MAX_LEN));
    }
}
