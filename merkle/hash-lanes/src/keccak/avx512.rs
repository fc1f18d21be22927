//! Keccak-f\[1600\] (FIPS 202 §3.2) on eight states with AVX-512: all 25 words stay in the 32 registers.

use super::state::{Blocks, RATE, RATE_WORDS, ROUNDS, States, word};
use core::arch::x86_64::{
    __m512i, _mm512_loadu_si512, _mm512_rol_epi64, _mm512_set_epi64, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_shuffle_i64x2, _mm512_ternarylogic_epi64, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64, _mm512_xor_si512,
};

/// Words of all states, one vector per word.
type Words = [__m512i; 25];

cpufeatures::new!(cpu, "avx512f");

#[inline]
pub(super) fn available() -> bool {
    cpu::get()
}

/// Adds a block to each state and permutes all states. Called only after [`available`] returned true.
pub(super) fn absorb(states: &mut States<8>, blocks: &Blocks<'_, 8>) {
    #[expect(unsafe_code, reason = "the feature was detected, and a word of eight states is one vector")]
    // SAFETY: `keccak256_in_lanes` hands this function out only after it has detected the feature. States are 25 times eight
    // words, aligned as a vector is.
    unsafe {
        let words = &mut *(&raw mut states.0).cast::<Words>();
        add(words, blocks);
        rounds(words);
    }
}

/// Adds a block to each state, eight words at a time: blocks' vectors are transposed to words' vectors.
#[target_feature(enable = "avx512f")]
fn add(words: &mut Words, blocks: &Blocks<'_, 8>) {
    for (at, words) in words[..RATE_WORDS - 1].chunks_exact_mut(8).enumerate() {
        // Of two states each: words 0, 2, 4 and 6, and words 1, 3, 5 and 7.
        let (mut even, mut odd) = ([_mm512_setzero_si512(); 4], [_mm512_setzero_si512(); 4]);
        for (two, (even, odd)) in even.iter_mut().zip(&mut odd).enumerate() {
            let (a, b) = (eight(blocks[2 * two], at), eight(blocks[2 * two + 1], at));
            (*even, *odd) = (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
        }
        for (first, [a, b, c, d]) in [even, odd].into_iter().enumerate() {
            let (low, low_too) = (_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0x88>(c, d));
            let (high, high_too) = (_mm512_shuffle_i64x2::<0xdd>(a, b), _mm512_shuffle_i64x2::<0xdd>(c, d));
            words[first] = xor(words[first], _mm512_shuffle_i64x2::<0x88>(low, low_too));
            words[first + 2] = xor(words[first + 2], _mm512_shuffle_i64x2::<0x88>(high, high_too));
            words[first + 4] = xor(words[first + 4], _mm512_shuffle_i64x2::<0xdd>(low, low_too));
            words[first + 6] = xor(words[first + 6], _mm512_shuffle_i64x2::<0xdd>(high, high_too));
        }
    }
    const { assert!(RATE_WORDS % 8 == 1) };
    let last = RATE_WORDS - 1;
    let [a, b, c, d, e, f, g, h] = blocks.map(|block| word(block, last) as i64);
    words[last] = xor(words[last], _mm512_set_epi64(h, g, f, e, d, c, b, a));
}

/// Eight neighbouring words of a block.
#[inline]
#[target_feature(enable = "avx512f")]
fn eight(block: &[u8; RATE], at: usize) -> __m512i {
    let (eights, _) = block.as_chunks::<{ size_of::<__m512i>() }>();
    #[expect(unsafe_code, reason = "an unaligned vector load")]
    // SAFETY: a chunk is as many bytes as a vector has.
    unsafe {
        _mm512_loadu_si512(eights[at].as_ptr().cast())
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor(a: __m512i, b: __m512i) -> __m512i {
    _mm512_xor_si512(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(a, b, c)
}

/// `a ^ (!b & c)`.
#[inline]
#[target_feature(enable = "avx512f")]
fn chi(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0xd2>(a, b, c)
}

/// Index of the word whose place each word takes in a round. A round writes five words over the five that it read, so after
/// [`PERIOD`] rounds every word is back in its place.
const PLACES: [usize; 25] = [0, 6, 12, 18, 24, 10, 16, 22, 3, 9, 20, 1, 7, 13, 19, 5, 11, 17, 23, 4, 15, 21, 2, 8, 14];

const PERIOD: usize = 4;

const _: () = assert!(ROUNDS.len().is_multiple_of(PERIOD) && places(PERIOD)[1] == 1 && places(PERIOD)[5] == 5);

/// Indices of the words after `rounds` rounds.
const fn places(rounds: usize) -> [usize; 25] {
    let (mut places, mut at) = ([0; 25], 0);
    while at < 25 {
        let (mut from, mut round) = (at, 0);
        while round < rounds {
            (from, round) = (PLACES[from], round + 1);
        }
        (places[at], at) = (from, at + 1);
    }
    places
}

/// All rounds, in registers. Plane by plane, so that the rotations of one plane overlap the logic of another: a core starts
/// fewer rotations at a time.
#[target_feature(enable = "avx512f")]
fn rounds(words: &mut Words) {
    let mut a = *words;
    macro_rules! round {
        ($round:literal, $constant:expr) => {
            let at = const { places($round) };
            let mut columns = [a[0]; 5];
            for (x, column) in columns.iter_mut().enumerate() {
                *column = xor3(a[at[x]], a[at[x + 5]], xor3(a[at[x + 10]], a[at[x + 15]], a[at[x + 20]]));
            }
            // Sums that theta adds to each column.
            let mut added = columns;
            for (x, added) in added.iter_mut().enumerate() {
                *added = xor(columns[(x + 4) % 5], _mm512_rol_epi64::<1>(columns[(x + 1) % 5]));
            }
            // Theta and rho of one word.
            macro_rules! word {
                ($from:literal, 0) => {
                    xor(a[at[$from]], added[$from % 5])
                };
                ($from:literal, $left:literal) => {
                    _mm512_rol_epi64::<$left>(word!($from, 0))
                };
            }
            // Chi of what pi makes a plane.
            macro_rules! plane {
                ($y:literal, $row:expr) => {
                    let row = $row;
                    for x in 0..5 {
                        a[at[PLACES[5 * $y + x]]] = chi(row[x], row[(x + 1) % 5], row[(x + 2) % 5]);
                    }
                };
            }
            plane!(0, [word!(0, 0), word!(6, 44), word!(12, 43), word!(18, 21), word!(24, 14)]);
            a[0] = xor(a[0], _mm512_set1_epi64($constant as i64));
            plane!(1, [word!(3, 28), word!(9, 20), word!(10, 3), word!(16, 45), word!(22, 61)]);
            plane!(2, [word!(1, 1), word!(7, 6), word!(13, 25), word!(19, 8), word!(20, 18)]);
            plane!(3, [word!(4, 27), word!(5, 36), word!(11, 10), word!(17, 15), word!(23, 56)]);
            plane!(4, [word!(2, 62), word!(8, 55), word!(14, 39), word!(15, 41), word!(21, 2)]);
        };
    }
    let (fours, _) = ROUNDS.as_chunks::<PERIOD>();
    for [first, second, third, fourth] in fours {
        round!(0, *first);
        round!(1, *second);
        round!(2, *third);
        round!(3, *fourth);
    }
    *words = a;
}
