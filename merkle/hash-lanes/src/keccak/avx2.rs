//! Keccak-f\[1600\] (FIPS 202 §3.2) on four states with AVX2.
//!
//! Sixteen registers do not hold 25 words. So a round reads one array and writes another, plane by plane, and sums the columns
//! that it writes. A plane, the columns' sums and theta's are fifteen registers. A seventh faster than the compiler's spills.

use super::{Blocks, RATE, RATE_WORDS, ROUNDS, States, word};
use core::arch::x86_64::{
    __m256i, _mm256_andnot_si256, _mm256_loadu_si256, _mm256_or_si256, _mm256_permute2x128_si256, _mm256_set_epi64x,
    _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_unpackhi_epi64,
    _mm256_unpacklo_epi64, _mm256_xor_si256,
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

#[inline]
#[target_feature(enable = "avx2")]
fn rol<const LEFT: i32, const RIGHT: i32>(word: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_slli_epi64::<LEFT>(word), _mm256_srli_epi64::<RIGHT>(word))
}

/// `a ^ (!b & c)`.
#[inline]
#[target_feature(enable = "avx2")]
fn chi(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
    xor(a, _mm256_andnot_si256(b, c))
}

#[target_feature(enable = "avx2")]
fn rounds(a: &mut Words) {
    let mut b = [_mm256_setzero_si256(); 25];
    let mut columns = [a[0]; 5];
    for (x, column) in columns.iter_mut().enumerate() {
        *column = xor(xor(xor(a[x], a[x + 5]), xor(a[x + 10], a[x + 15])), a[x + 20]);
    }
    // The last round writes to the array of the first.
    const { assert!(ROUNDS.len().is_multiple_of(2)) };
    let (mut from, mut to) = (a, &mut b);
    for constant in ROUNDS {
        round(from, to, &mut columns, constant);
        core::mem::swap(&mut from, &mut to);
    }
}

/// Computes a round. `columns` are the sums over `from`'s columns and become the sums over `to`'s. Called from one place, so
/// that it is inlined into the loop and the sums stay in registers.
#[inline]
#[target_feature(enable = "avx2")]
fn round(from: &Words, to: &mut Words, columns: &mut [__m256i; 5], constant: u64) {
    // Sums that theta adds to each column.
    let mut added = [columns[0]; 5];
    for (x, added) in added.iter_mut().enumerate() {
        *added = xor(columns[(x + 4) % 5], rol::<1, 63>(columns[(x + 1) % 5]));
    }
    // Theta and rho of one word; its place in its plane is pi.
    macro_rules! word {
        ($at:literal) => {
            xor(from[$at], added[$at % 5])
        };
        ($at:literal, $left:literal, $right:literal) => {
            rol::<$left, $right>(word!($at))
        };
    }
    // Chi of one plane, with iota in the first.
    macro_rules! plane {
        ($y:literal, $row:expr) => {
            let row = $row;
            plane!($y, row, 0, 1, 2);
            plane!($y, row, 1, 2, 3);
            plane!($y, row, 2, 3, 4);
            plane!($y, row, 3, 4, 0);
            plane!($y, row, 4, 0, 1);
        };
        ($y:literal, $row:ident, $x:literal, $x1:literal, $x2:literal) => {
            let mut word = chi($row[$x], $row[$x1], $row[$x2]);
            if $x + 5 * $y == 0 {
                word = xor(word, _mm256_set1_epi64x(constant as i64));
            }
            to[$x + 5 * $y] = word;
            columns[$x] = if $y == 0 { word } else { xor(columns[$x], word) };
        };
    }
    plane!(0, [word!(0), word!(6, 44, 20), word!(12, 43, 21), word!(18, 21, 43), word!(24, 14, 50)]);
    plane!(1, [word!(3, 28, 36), word!(9, 20, 44), word!(10, 3, 61), word!(16, 45, 19), word!(22, 61, 3)]);
    plane!(2, [word!(1, 1, 63), word!(7, 6, 58), word!(13, 25, 39), word!(19, 8, 56), word!(20, 18, 46)]);
    plane!(3, [word!(4, 27, 37), word!(5, 36, 28), word!(11, 10, 54), word!(17, 15, 49), word!(23, 56, 8)]);
    plane!(4, [word!(2, 62, 2), word!(8, 55, 9), word!(14, 39, 25), word!(15, 41, 23), word!(21, 2, 62)]);
}
