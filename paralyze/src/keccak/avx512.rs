//! Keccak-f\[1600\] (FIPS 202 §3.2) on eight states: all 25 words stay in registers, of which there are 32.

use super::{Blocks, RATE_WORDS, ROUNDS, States, word};
use core::arch::x86_64::{
    __m512i, _mm512_loadu_si512, _mm512_rol_epi64, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_storeu_si512,
    _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

/// Adds a block to each state, and permutes all. Only called where the feature was detected.
pub(super) fn absorb(states: &mut States<8>, blocks: &Blocks<'_, 8>) {
    for (at, words) in states.0[..RATE_WORDS].iter_mut().enumerate() {
        for (state, block) in words.iter_mut().zip(blocks) {
            *state ^= word(block, at);
        }
    }
    #[expect(unsafe_code, reason = "the feature was detected")]
    // SAFETY: `keccak256_many` hands this function out only after it has detected the feature.
    unsafe {
        rounds(states);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor(a: __m512i, b: __m512i) -> __m512i {
    _mm512_xor_si512(a, b)
}

/// `a ^ (!b & c)`.
#[inline]
#[target_feature(enable = "avx512f")]
fn chi(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0xd2>(a, b, c)
}

#[target_feature(enable = "avx512f")]
#[expect(unsafe_code, reason = "unaligned vector loads and stores of whole arrays")]
fn rounds(states: &mut States<8>) {
    let mut a = [_mm512_setzero_si512(); 25];
    for (vector, state) in a.iter_mut().zip(&states.0) {
        // SAFETY: each word of all lanes is exactly one vector.
        *vector = unsafe { _mm512_loadu_si512(state.as_ptr().cast()) };
    }
    for constant in ROUNDS {
        // Theta.
        let mut c = [a[0]; 5];
        for (x, c) in c.iter_mut().enumerate() {
            *c = xor(xor(xor(a[x], a[x + 5]), xor(a[x + 10], a[x + 15])), a[x + 20]);
        }
        for x in 0..5 {
            let d = xor(c[(x + 4) % 5], _mm512_rol_epi64::<1>(c[(x + 1) % 5]));
            for y in 0..5 {
                a[x + 5 * y] = xor(a[x + 5 * y], d);
            }
        }
        // Rho and pi: one cycle through all words but the first.
        let mut carried = a[1];
        macro_rules! step {
            ($to:literal, $left:literal) => {
                let next = a[$to];
                a[$to] = _mm512_rol_epi64::<$left>(carried);
                carried = next;
            };
        }
        step!(10, 1);
        step!(7, 3);
        step!(11, 6);
        step!(17, 10);
        step!(18, 15);
        step!(3, 21);
        step!(5, 28);
        step!(16, 36);
        step!(8, 45);
        step!(21, 55);
        step!(24, 2);
        step!(4, 14);
        step!(15, 27);
        step!(23, 41);
        step!(19, 56);
        step!(13, 8);
        step!(12, 25);
        step!(2, 43);
        step!(20, 62);
        step!(14, 18);
        step!(22, 39);
        step!(9, 61);
        step!(6, 20);
        step!(1, 44);
        let _ = carried;
        // Chi.
        for y in 0..5 {
            let row = [a[5 * y], a[5 * y + 1], a[5 * y + 2], a[5 * y + 3], a[5 * y + 4]];
            for x in 0..5 {
                a[5 * y + x] = chi(row[x], row[(x + 1) % 5], row[(x + 2) % 5]);
            }
        }
        // Iota.
        a[0] = xor(a[0], _mm512_set1_epi64(constant as i64));
    }
    for (state, vector) in states.0.iter_mut().zip(a) {
        // SAFETY: each word of all lanes is exactly one vector.
        unsafe { _mm512_storeu_si512(state.as_mut_ptr().cast(), vector) };
    }
}
