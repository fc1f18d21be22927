//! Keccak-f\[1600\] (FIPS 202 §3.2) on two states with the SHA-3 instructions of Armv8.2.

use super::{
    permutation::permutation,
    state::{Blocks, RATE_WORDS, States, word},
};
use core::arch::aarch64::{
    uint64x2_t, vbcaxq_u64, vcombine_u64, vcreate_u64, vdupq_n_u64, veorq_u64, vrax1q_u64, vxarq_u64,
};

/// Words of both states, one vector per word.
type Words = [uint64x2_t; 25];

cpufeatures::new!(cpu, "sha3");

#[inline]
pub(super) fn available() -> bool {
    cpu::get()
}

/// Adds a block to each state and permutes both. Called only after [`available`] returned true.
pub(super) fn absorb(states: &mut States<2>, blocks: &Blocks<'_, 2>) {
    #[expect(unsafe_code, reason = "the feature was detected, and a word of two states is one vector")]
    // SAFETY: `keccak256_in_lanes` hands this function out only after it has detected the feature. States are 25 times two
    // words, aligned to more than a vector is.
    unsafe {
        let words = &mut *(&raw mut states.0).cast::<Words>();
        add(words, blocks);
        rounds(words);
    }
}

/// Adds a block to each state.
#[target_feature(enable = "sha3")]
fn add(words: &mut Words, blocks: &Blocks<'_, 2>) {
    for (at, sum) in words[..RATE_WORDS].iter_mut().enumerate() {
        let both = vcombine_u64(vcreate_u64(word(blocks[0], at)), vcreate_u64(word(blocks[1], at)));
        *sum = xor(*sum, both);
    }
}

#[inline]
#[target_feature(enable = "sha3")]
fn xor(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
    veorq_u64(a, b)
}

/// The sum of two words, rotated.
#[inline]
#[target_feature(enable = "sha3")]
fn xor_rol<const LEFT: i32, const RIGHT: i32>(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
    vxarq_u64::<RIGHT>(a, b)
}

/// `a ^ rol(b, 1)`.
#[inline]
#[target_feature(enable = "sha3")]
fn xor_twice(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
    vrax1q_u64(a, b)
}

/// `a ^ (!b & c)`.
#[inline]
#[target_feature(enable = "sha3")]
fn chi(a: uint64x2_t, b: uint64x2_t, c: uint64x2_t) -> uint64x2_t {
    vbcaxq_u64(a, c, b)
}

#[inline]
#[target_feature(enable = "sha3")]
fn splat(word: u64) -> uint64x2_t {
    vdupq_n_u64(word)
}

permutation!("sha3", uint64x2_t);
