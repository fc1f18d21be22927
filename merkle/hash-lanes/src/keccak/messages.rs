//! Messages in lanes: which lanes a processor has, and how messages of any length fill them.

#[cfg(target_arch = "aarch64")]
use super::sha3;
use super::state::{Blocks, NOTHING, RATE, States};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use alloc::vec::Vec;
use alloy_primitives::{B256, keccak256};

/// Number of messages that are hashed side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// Eight, with AVX-512.
    Eight,
    /// Four, with AVX2.
    Four,
    /// Two, with the SHA-3 instructions of Armv8.2.
    Two,
    /// One after the other.
    One,
}

impl Lanes {
    /// The most lanes that this processor has.
    pub fn most() -> Self {
        [Self::Eight, Self::Four, Self::Two].into_iter().find(|lanes| lanes.available()).unwrap_or(Self::One)
    }

    /// True if this processor has the instructions.
    pub fn available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Eight => avx512::available(),
            #[cfg(target_arch = "x86_64")]
            Self::Four => avx2::available(),
            #[cfg(target_arch = "aarch64")]
            Self::Two => sha3::available(),
            Self::One => true,
            _ => false,
        }
    }
}

/// Appends the Keccak-256 of each input to `out`, in order.
///
/// Equal to [`keccak256`] of each input. Fastest where neighbours have about the same length. O(bytes).
pub fn keccak256_many<'a>(inputs: impl ExactSizeIterator<Item = &'a [u8]>, out: &mut Vec<B256>) {
    keccak256_in_lanes(Lanes::most(), inputs, out);
}

/// [`keccak256_many`] with at most so many lanes: one after the other if this processor has fewer.
pub fn keccak256_in_lanes<'a>(lanes: Lanes, inputs: impl ExactSizeIterator<Item = &'a [u8]>, out: &mut Vec<B256>) {
    out.reserve(inputs.len());
    match lanes {
        #[cfg(target_arch = "x86_64")]
        Lanes::Eight if avx512::available() => side_by_side::<8>(inputs, avx512::absorb, out),
        #[cfg(target_arch = "x86_64")]
        Lanes::Four if avx2::available() => side_by_side::<4>(inputs, avx2::absorb, out),
        #[cfg(target_arch = "aarch64")]
        Lanes::Two if sha3::available() => side_by_side::<2>(inputs, sha3::absorb, out),
        _ => out.extend(inputs.map(keccak256)),
    }
}

fn side_by_side<'a, const N: usize>(
    mut inputs: impl Iterator<Item = &'a [u8]>,
    absorb: impl Fn(&mut States<N>, &Blocks<'_, N>),
    out: &mut Vec<B256>,
) {
    loop {
        let mut lanes: [&[u8]; N] = [&[]; N];
        let mut filled = 0;
        for (lane, input) in lanes.iter_mut().zip(&mut inputs) {
            *lane = input;
            filled += 1;
        }
        match filled {
            0 => return,
            1 => out.push(keccak256(lanes[0])),
            _ => hash_lanes(&lanes[..filled], &absorb, out),
        }
    }
}

/// Hashes at most `N` messages. `absorb` adds a block to each state and permutes it.
fn hash_lanes<const N: usize>(lanes: &[&[u8]], absorb: &impl Fn(&mut States<N>, &Blocks<'_, N>), out: &mut Vec<B256>) {
    let mut states = States([[0; N]; 25]);
    // The last block of each message, with the padding.
    let mut lasts = [NOTHING; N];
    let mut most = 0;
    for (lane, last) in lanes.iter().zip(&mut lasts) {
        let whole = lane.len() / RATE;
        let rest = &lane[whole * RATE..];
        last[..rest.len()].copy_from_slice(rest);
        last[rest.len()] = 0x01;
        last[RATE - 1] |= 0x80;
        most = most.max(whole);
    }
    let first = out.len();
    out.resize(first + lanes.len(), B256::ZERO);
    for at in 0..=most {
        let mut blocks = [&NOTHING; N];
        for ((block, lane), last) in blocks.iter_mut().zip(lanes).zip(&lasts) {
            let (whole, _) = lane.as_chunks::<RATE>();
            match whole.get(at) {
                Some(whole) => *block = whole,
                None if at == whole.len() => *block = last,
                None => {}
            }
        }
        absorb(&mut states, &blocks);
        for (i, lane) in lanes.iter().enumerate() {
            if at == lane.len() / RATE {
                for (word, bytes) in out[first + i].0.chunks_exact_mut(8).enumerate() {
                    bytes.copy_from_slice(&states.0[word][i].to_le_bytes());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{vec, vec::Vec};

    use rand::{Rng as _, RngCore as _, SeedableRng as _};

    fn inputs(seed: u64) -> Vec<Vec<u8>> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let edges = [0, 1, 31, 32, 64, 134, 135, 136, 137, 271, 272, 273, 407, 408, 532];
        (0..rng.random_range(0..60))
            .map(|_| {
                let len = if rng.random_bool(0.5) {
                    edges[rng.random_range(0..edges.len())]
                } else {
                    rng.random_range(0..900)
                };
                let mut input = vec![0; len];
                rng.fill_bytes(&mut input);
                input
            })
            .collect()
    }

    /// `PHALANX_LANES` names the most lanes that the processor is expected to have, so that a lack of instructions is no success.
    #[test]
    fn the_processor_has_the_lanes_that_are_expected() {
        if let Ok(expected) = std::env::var("PHALANX_LANES") {
            assert_eq!(std::format!("{:?}", Lanes::most()), expected);
        }
    }

    #[test]
    fn hashes_side_by_side_equal_hashes_one_by_one() {
        for seed in 0..200 {
            let inputs = inputs(seed);
            let expected: Vec<_> = inputs.iter().map(keccak256).collect();
            let mut out = vec![B256::repeat_byte(7)];
            keccak256_many(inputs.iter().map(Vec::as_slice), &mut out);
            assert_eq!(out[1..], expected, "seed {seed}");
            for lanes in [Lanes::Eight, Lanes::Four, Lanes::Two, Lanes::One] {
                let mut out = Vec::new();
                keccak256_in_lanes(lanes, inputs.iter().map(Vec::as_slice), &mut out);
                assert_eq!(out, expected, "{lanes:?}, seed {seed}");
            }
        }
    }
}
