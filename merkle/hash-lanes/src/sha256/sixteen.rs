//! SHA-256 of sixteen messages side by side with AVX-512: one word of all messages is one vector.
//!
//! AVX-512 has three-way logic and rotations as one instruction each. So a block takes about half the cycles of the SHA
//! instructions, of which a core starts one every other cycle.

use core::arch::x86_64::{
    __m512i, _mm256_storeu_si256, _mm512_add_epi32, _mm512_castsi512_si256, _mm512_extracti64x4_epi64,
    _mm512_loadu_si512, _mm512_permutex2var_epi64, _mm512_ror_epi32, _mm512_set_epi64, _mm512_set1_epi32,
    _mm512_set4_epi32, _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_shuffle_i32x4, _mm512_srli_epi32,
    _mm512_ternarylogic_epi32, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32,
    _mm512_unpacklo_epi64,
};

use super::{INITIAL, K, LANES, Padded};
use crate::Hash;

/// Minimum number of messages at which sixteen lanes, partly empty, cost less than two messages at a time.
pub(super) const MIN_MESSAGES: usize = 10;

cpufeatures::new!(cpu, "avx512f", "avx512bw");

#[inline]
pub(super) fn available() -> bool {
    cpu::get()
}

/// Digests of groups of messages. The sums of a round wait for each other, so two groups at a time take a quarter less than
/// one after the other. There are no registers for more.
///
/// # Panics
/// If the CPU lacks the instructions; ask [`available`] first.
#[expect(unsafe_code, reason = "instructions that not every CPU has")]
pub(super) fn compress<const N: usize, const BLOCKS: usize>(
    messages: &[[Padded<BLOCKS>; LANES]; N],
) -> [[Hash; LANES]; N] {
    assert!(available());
    // SAFETY: the CPU has the instructions, as just asserted.
    unsafe { all(messages) }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn all<const N: usize, const BLOCKS: usize>(messages: &[[Padded<BLOCKS>; LANES]; N]) -> [[Hash; LANES]; N] {
    let mut states = [INITIAL.map(|word| _mm512_set1_epi32(word.cast_signed())); N];
    for block in 0..BLOCKS {
        let before = states;
        let mut w = [[_mm512_setzero_si512(); 16]; N];
        for (w, messages) in w.iter_mut().zip(messages) {
            *w = load(messages, block);
        }
        rounds(&mut states, w);
        for (word, before) in states.as_flattened_mut().iter_mut().zip(before.as_flattened()) {
            *word = _mm512_add_epi32(*word, *before);
        }
    }
    let mut out = [[[0; 32]; LANES]; N];
    for (out, state) in out.iter_mut().zip(states) {
        *out = digests(state);
    }
    out
}

/// All 64 rounds on one block of each message (FIPS 180-4 §6.2.2).
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn rounds<const N: usize>(states: &mut [[__m512i; 8]; N], mut w: [[__m512i; 16]; N]) {
    let mut states_now = *states;
    // Unrolled so that every word has a register: indices are constants, and rotate instead of the words.
    macro_rules! round {
        ($a:literal $b:literal $c:literal $d:literal $e:literal $f:literal $g:literal $h:literal, $k:expr, $at:expr) => {
            let k = _mm512_set1_epi32($k[$at].cast_signed());
            for (s, w) in states_now.iter_mut().zip(&w) {
                let t = _mm512_add_epi32(s[$h], _mm512_add_epi32(w[$at], k));
                let t =
                    _mm512_add_epi32(_mm512_add_epi32(t, choose(s[$e], s[$f], s[$g])), big_sigma::<6, 11, 25>(s[$e]));
                s[$d] = _mm512_add_epi32(s[$d], t);
                let t = _mm512_add_epi32(t, majority(s[$a], s[$b], s[$c]));
                s[$h] = _mm512_add_epi32(t, big_sigma::<2, 13, 22>(s[$a]));
            }
        };
    }
    macro_rules! eight {
        ($k:expr, $at:literal) => {
            round!(0 1 2 3 4 5 6 7, $k, $at);
            round!(7 0 1 2 3 4 5 6, $k, $at + 1);
            round!(6 7 0 1 2 3 4 5, $k, $at + 2);
            round!(5 6 7 0 1 2 3 4, $k, $at + 3);
            round!(4 5 6 7 0 1 2 3, $k, $at + 4);
            round!(3 4 5 6 7 0 1 2, $k, $at + 5);
            round!(2 3 4 5 6 7 0 1, $k, $at + 6);
            round!(1 2 3 4 5 6 7 0, $k, $at + 7);
        };
    }
    macro_rules! schedule {
        ($w:ident: $($at:literal)*) => {$(
            let (near, far) = ($w[($at + 1) % 16], $w[($at + 14) % 16]);
            let sum = _mm512_add_epi32(_mm512_add_epi32($w[$at], $w[($at + 9) % 16]), small_sigma::<7, 18, 3>(near));
            $w[$at] = _mm512_add_epi32(sum, small_sigma::<17, 19, 10>(far));
        )*};
    }
    let (sixteens, _) = K.as_chunks::<16>();
    for (at, k) in sixteens.iter().enumerate() {
        if at > 0 {
            for w in &mut w {
                schedule!(w: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
            }
        }
        eight!(k, 0);
        eight!(k, 8);
    }
    *states = states_now;
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn choose(e: __m512i, f: __m512i, g: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0xca>(e, f, g)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn majority(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0xe8>(a, b, c)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0x96>(a, b, c)
}

/// Σ₀ and Σ₁ (FIPS 180-4 §4.1.2).
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn big_sigma<const A: i32, const B: i32, const C: i32>(x: __m512i) -> __m512i {
    xor3(_mm512_ror_epi32::<A>(x), _mm512_ror_epi32::<B>(x), _mm512_ror_epi32::<C>(x))
}

/// σ₀ and σ₁ (FIPS 180-4 §4.1.2).
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn small_sigma<const A: i32, const B: i32, const SHIFT: u32>(x: __m512i) -> __m512i {
    xor3(_mm512_ror_epi32::<A>(x), _mm512_ror_epi32::<B>(x), _mm512_srli_epi32::<SHIFT>(x))
}

/// The sixteen words of a block of each message, one vector per word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load<const BLOCKS: usize>(messages: &[Padded<BLOCKS>; LANES], block: usize) -> [__m512i; 16] {
    let mut rows = [_mm512_setzero_si512(); 16];
    for (row, message) in rows.iter_mut().zip(messages) {
        #[expect(unsafe_code, reason = "an unaligned vector load")]
        // SAFETY: a block is as many bytes as a vector has.
        unsafe {
            *row = _mm512_loadu_si512(message[block].as_ptr().cast());
        }
    }
    // Within each quarter of a vector, quads of four messages become quads of one word.
    let mut quads = rows;
    for (quads, rows) in quads.as_chunks_mut::<4>().0.iter_mut().zip(rows.as_chunks::<4>().0) {
        *quads = transpose(*rows);
    }
    // Then quarters of vectors are collected by word.
    let mut words = quads;
    for at in 0..4 {
        let (a, b, c, d) = (quads[at], quads[4 + at], quads[8 + at], quads[12 + at]);
        let (even, even_too) = (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0x88>(c, d));
        let (odd, odd_too) = (_mm512_shuffle_i32x4::<0xdd>(a, b), _mm512_shuffle_i32x4::<0xdd>(c, d));
        words[at] = big_endian(_mm512_shuffle_i32x4::<0x88>(even, even_too));
        words[4 + at] = big_endian(_mm512_shuffle_i32x4::<0x88>(odd, odd_too));
        words[8 + at] = big_endian(_mm512_shuffle_i32x4::<0xdd>(even, even_too));
        words[12 + at] = big_endian(_mm512_shuffle_i32x4::<0xdd>(odd, odd_too));
    }
    words
}

/// Swaps the byte order of each word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn big_endian(words: __m512i) -> __m512i {
    _mm512_shuffle_epi8(words, _mm512_set4_epi32(0x0c0d_0e0f, 0x0809_0a0b, 0x0405_0607, 0x0001_0203))
}

/// Transposes the four by four words in each quarter of four vectors.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn transpose([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab, ab_too) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd, cd_too) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab, cd),
        _mm512_unpackhi_epi64(ab, cd),
        _mm512_unpacklo_epi64(ab_too, cd_too),
        _mm512_unpackhi_epi64(ab_too, cd_too),
    ]
}

/// Digests of all lanes from their states.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn digests(state: [__m512i; 8]) -> [Hash; LANES] {
    let [a, b, c, d, e, f, g, h] = state;
    // In quarter q of vector i, the first and the last four words of message 4 q + i.
    let (firsts, lasts) = (transpose([a, b, c, d]), transpose([e, f, g, h]));
    let (lower, upper) = (_mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0), _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4));
    let mut out = [[0; 32]; LANES];
    for (i, (first, last)) in firsts.into_iter().zip(lasts).enumerate() {
        let (first, last) = (big_endian(first), big_endian(last));
        for (pair, order) in [lower, upper].into_iter().enumerate() {
            let two = _mm512_permutex2var_epi64(first, order, last);
            let quarters = [_mm512_castsi512_si256(two), _mm512_extracti64x4_epi64::<1>(two)];
            for (half, digest) in quarters.into_iter().enumerate() {
                #[expect(unsafe_code, reason = "an unaligned vector store")]
                // SAFETY: a digest is as many bytes as half a vector has.
                unsafe {
                    _mm256_storeu_si256(out[4 * (2 * pair + half) + i].as_mut_ptr().cast(), digest);
                }
            }
        }
    }
    out
}
