//! Keccak-256 of many short inputs at once: eight (AVX-512) or four (AVX2) states side by side in vector registers.
//!
//! A block hashes four to eight inputs per transaction (slots, log topics, receipts, trie nodes), all independent of each
//! other. One state at a time leaves most of a core idle; side by side an input costs a third to a fifth.

use alloy_primitives::{B256, keccak256};

/// Bytes absorbed per permutation.
const RATE: usize = 136;
const RATE_WORDS: usize = RATE / 8;

/// Hashes of all `inputs`, in order, appended to `out`. Equal to [`keccak256`] of each; fastest where neighbours have
/// about the same length.
pub fn keccak256_many<'a>(inputs: impl ExactSizeIterator<Item = &'a [u8]>, out: &mut Vec<B256>) {
    out.reserve(inputs.len());
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return side_by_side::<8>(inputs, avx512::permute, out);
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            return side_by_side::<4>(inputs, avx2::permute, out);
        }
    }
    out.extend(inputs.map(keccak256));
}

/// `N` states, word by word, so that a word of all states is one vector.
#[repr(C, align(64))]
struct States<const N: usize>([[u64; N]; 25]);

fn side_by_side<'a, const N: usize>(
    mut inputs: impl Iterator<Item = &'a [u8]>,
    permute: impl Fn(&mut States<N>),
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
            _ => hash_lanes(&lanes, filled, &permute, out),
        }
    }
}

fn hash_lanes<const N: usize>(
    lanes: &[&[u8]; N],
    filled: usize,
    permute: &impl Fn(&mut States<N>),
    out: &mut Vec<B256>,
) {
    let mut states = States([[0; N]; 25]);
    // A lane ends with a block that has room for at least the padding bit.
    let blocks = |lane: &[u8]| lane.len() / RATE + 1;
    let first = out.len();
    out.resize(first + filled, B256::ZERO);
    for block in 0..lanes[..filled].iter().map(|lane| blocks(lane)).max().unwrap_or(0) {
        for (i, lane) in lanes[..filled].iter().enumerate() {
            // A lane that has ended goes on with whatever is in its state; its hash was taken.
            if block + 1 < blocks(lane) {
                absorb(&mut states, i, &lane[block * RATE..(block + 1) * RATE]);
            } else if block + 1 == blocks(lane) {
                let rest = &lane[block * RATE..];
                let mut last = [0; RATE];
                last[..rest.len()].copy_from_slice(rest);
                last[rest.len()] = 0x01;
                last[RATE - 1] |= 0x80;
                absorb(&mut states, i, &last);
            }
        }
        permute(&mut states);
        for (i, lane) in lanes[..filled].iter().enumerate() {
            if block + 1 == blocks(lane) {
                for (word, bytes) in out[first + i].0.chunks_exact_mut(8).enumerate() {
                    bytes.copy_from_slice(&states.0[word][i].to_le_bytes());
                }
            }
        }
    }
}

#[inline]
fn absorb<const N: usize>(states: &mut States<N>, lane: usize, block: &[u8]) {
    for (state, bytes) in states.0[..RATE_WORDS].iter_mut().zip(block.chunks_exact(8)) {
        state[lane] ^= u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
}

#[cfg(target_arch = "x86_64")]
const ROUNDS: [u64; 24] = [
    0x0000_0000_0000_0001,
    0x0000_0000_0000_8082,
    0x8000_0000_0000_808a,
    0x8000_0000_8000_8000,
    0x0000_0000_0000_808b,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8009,
    0x0000_0000_0000_008a,
    0x0000_0000_0000_0088,
    0x0000_0000_8000_8009,
    0x0000_0000_8000_000a,
    0x0000_0000_8000_808b,
    0x8000_0000_0000_008b,
    0x8000_0000_0000_8089,
    0x8000_0000_0000_8003,
    0x8000_0000_0000_8002,
    0x8000_0000_0000_0080,
    0x0000_0000_0000_800a,
    0x8000_0000_8000_000a,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8080,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8008,
];

/// Keccak-f\[1600\] on vectors (FIPS 202 §3.2), given the four operations on one vector type.
#[cfg(target_arch = "x86_64")]
macro_rules! permutation {
    ($feature:literal, $lanes:literal, $load:ident, $store:ident, $splat:ident, $xor:ident, $chi:ident, $rol:ident) => {
        #[target_feature(enable = $feature)]
        #[expect(unsafe_code, reason = "unaligned vector loads and stores of whole arrays")]
        fn rounds(states: &mut States<$lanes>) {
            // SAFETY: each word of all lanes is exactly one vector.
            let mut a: [_; 25] = core::array::from_fn(|i| unsafe { $load(states.0[i].as_ptr().cast()) });
            for constant in ROUNDS {
                // Theta.
                let c: [_; 5] =
                    core::array::from_fn(|x| $xor($xor($xor(a[x], a[x + 5]), $xor(a[x + 10], a[x + 15])), a[x + 20]));
                for x in 0..5 {
                    let d = $xor(c[(x + 4) % 5], $rol::<1, 63>(c[(x + 1) % 5]));
                    for y in 0..5 {
                        a[x + 5 * y] = $xor(a[x + 5 * y], d);
                    }
                }
                // Rho and pi: one cycle through all words but the first.
                let mut carried = a[1];
                macro_rules! step {
                    ($to:literal, $left:literal, $right:literal) => {
                        let next = a[$to];
                        a[$to] = $rol::<$left, $right>(carried);
                        carried = next;
                    };
                }
                step!(10, 1, 63);
                step!(7, 3, 61);
                step!(11, 6, 58);
                step!(17, 10, 54);
                step!(18, 15, 49);
                step!(3, 21, 43);
                step!(5, 28, 36);
                step!(16, 36, 28);
                step!(8, 45, 19);
                step!(21, 55, 9);
                step!(24, 2, 62);
                step!(4, 14, 50);
                step!(15, 27, 37);
                step!(23, 41, 23);
                step!(19, 56, 8);
                step!(13, 8, 56);
                step!(12, 25, 39);
                step!(2, 43, 21);
                step!(20, 62, 2);
                step!(14, 18, 46);
                step!(22, 39, 25);
                step!(9, 61, 3);
                step!(6, 20, 44);
                step!(1, 44, 20);
                let _ = carried;
                // Chi.
                for y in 0..5 {
                    let row: [_; 5] = core::array::from_fn(|x| a[5 * y + x]);
                    for x in 0..5 {
                        a[5 * y + x] = $chi(row[x], row[(x + 1) % 5], row[(x + 2) % 5]);
                    }
                }
                // Iota.
                a[0] = $xor(a[0], $splat(constant as i64));
            }
            for (state, vector) in states.0.iter_mut().zip(a) {
                // SAFETY: each word of all lanes is exactly one vector.
                unsafe { $store(state.as_mut_ptr().cast(), vector) };
            }
        }

        /// Permutes all states. Only called where the feature was detected.
        pub(super) fn permute(states: &mut States<$lanes>) {
            #[expect(unsafe_code, reason = "the feature was detected")]
            // SAFETY: `keccak256_many` hands this function out only after it has detected the feature.
            unsafe {
                rounds(states);
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{ROUNDS, States};
    use core::arch::x86_64::{
        __m512i, _mm512_loadu_si512, _mm512_rol_epi64, _mm512_set1_epi64, _mm512_storeu_si512,
        _mm512_ternarylogic_epi64, _mm512_xor_si512,
    };

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn rol<const LEFT: i32, const RIGHT: i32>(word: __m512i) -> __m512i {
        _mm512_rol_epi64::<LEFT>(word)
    }

    /// `a ^ (!b & c)`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn chi(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        _mm512_ternarylogic_epi64::<0xd2>(a, b, c)
    }

    permutation!("avx512f", 8, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_set1_epi64, _mm512_xor_si512, chi, rol);
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{ROUNDS, States};
    use core::arch::x86_64::{
        __m256i, _mm256_andnot_si256, _mm256_loadu_si256, _mm256_or_si256, _mm256_set1_epi64x, _mm256_slli_epi64,
        _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
    };

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rol<const LEFT: i32, const RIGHT: i32>(word: __m256i) -> __m256i {
        _mm256_or_si256(_mm256_slli_epi64::<LEFT>(word), _mm256_srli_epi64::<RIGHT>(word))
    }

    /// `a ^ (!b & c)`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn chi(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        _mm256_xor_si256(a, _mm256_andnot_si256(b, c))
    }

    permutation!("avx2", 4, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_set1_epi64x, _mm256_xor_si256, chi, rol);
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn many_at_once_equal_one_by_one() {
        for seed in 0..200 {
            let inputs = inputs(seed);
            let expected: Vec<_> = inputs.iter().map(keccak256).collect();
            let mut out = vec![B256::repeat_byte(7)];
            keccak256_many(inputs.iter().map(Vec::as_slice), &mut out);
            assert_eq!(out[1..], expected, "seed {seed}");
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                let mut out = Vec::new();
                side_by_side::<4>(inputs.iter().map(Vec::as_slice), avx2::permute, &mut out);
                assert_eq!(out, expected, "AVX2, seed {seed}");
            }
        }
    }
}
