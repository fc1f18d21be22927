//! Keccak-f\[1600\] (FIPS 202 §3.2) on four states with AVX2.

use super::{
    permutation::permutation,
    state::{Blocks, RATE, RATE_WORDS, States, word},
};
use core::arch::x86_64::{
    __m256i, _mm256_andnot_si256, _mm256_loadu_si256, _mm256_or_si256, _mm256_permute2x128_si256, _mm256_set_epi64x,
    _mm256_set1_epi64x, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_unpackhi_epi64, _mm256_unpacklo_epi64,
    _mm256_xor_si256,
};

/// Words of all states, one vector per word.
type Words = [__m256i; 25];

cpufeatures::new!(cpu, "avx2");

#[inline]
pub(super) fn available() -> bool {
    cpu::get()
}

/// Adds a block to each state and permutes all states. Called only after [`available`] returned true.
pub(super) fn absorb(states: &mut States<4>, blocks: &Blocks<'_, 4>) {
    #[expect(unsafe_code, reason = "the feature was detected, and a word of four states is one vector")]
    // SAFETY: `keccak256_in_lanes` hands this function out only after it has detected the feature. States are 25 times four
    // words, aligned to more than a vector is.
    unsafe {
        let words = &mut *(&raw mut states.0).cast::<Words>();
        add(words, blocks);
        rounds(words);
    }
}

/// Adds a block to each state, four words at a time: blocks' vectors are transposed to words' vectors.
#[target_feature(enable = "avx2")]
fn add(words: &mut Words, blocks: &Blocks<'_, 4>) {
    for (at, words) in words[..RATE_WORDS - 1].chunks_exact_mut(4).enumerate() {
        let [a, b, c, d] = [four(blocks[0], at), four(blocks[1], at), four(blocks[2], at), four(blocks[3], at)];
        let (low, high) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
        let (low_too, high_too) = (_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
        words[0] = xor(words[0], _mm256_permute2x128_si256::<0x20>(low, low_too));
        words[1] = xor(words[1], _mm256_permute2x128_si256::<0x20>(high, high_too));
        words[2] = xor(words[2], _mm256_permute2x128_si256::<0x31>(low, low_too));
        words[3] = xor(words[3], _mm256_permute2x128_si256::<0x31>(high, high_too));
    }
    const { assert!(RATE_WORDS % 4 == 1) };
    let last = RATE_WORDS - 1;
    let [a, b, c, d] = [word(blocks[0], last), word(blocks[1], last), word(blocks[2], last), word(blocks[3], last)];
    words[last] = xor(words[last], _mm256_set_epi64x(d as i64, c as i64, b as i64, a as i64));
}

/// Four neighbouring words of a block.
#[inline]
#[target_feature(enable = "avx2")]
fn four(block: &[u8; RATE], at: usize) -> __m256i {
    let (fours, _) = block.as_chunks::<{ size_of::<__m256i>() }>();
    #[expect(unsafe_code, reason = "an unaligned vector load")]
    // SAFETY: a chunk is as many bytes as a vector has.
    unsafe {
        _mm256_loadu_si256(fours[at].as_ptr().cast())
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor(a: __m256i, b: __m256i) -> __m256i {
    _mm256_xor_si256(a, b)
}

/// The sum of two words, rotated.
#[inline]
#[target_feature(enable = "avx2")]
fn xor_rol<const LEFT: i32, const RIGHT: i32>(a: __m256i, b: __m256i) -> __m256i {
    let word = xor(a, b);
    _mm256_or_si256(_mm256_slli_epi64::<LEFT>(word), _mm256_srli_epi64::<RIGHT>(word))
}

/// `a ^ rol(b, 1)`.
#[inline]
#[target_feature(enable = "avx2")]
fn xor_twice(a: __m256i, b: __m256i) -> __m256i {
    xor(a, _mm256_or_si256(_mm256_slli_epi64::<1>(b), _mm256_srli_epi64::<63>(b)))
}

/// `a ^ (!b & c)`.
#[inline]
#[target_feature(enable = "avx2")]
fn chi(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
    xor(a, _mm256_andnot_si256(b, c))
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(word: u64) -> __m256i {
    _mm256_set1_epi64x(word as i64)
}

permutation!("avx2", __m256i);
