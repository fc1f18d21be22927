//! Keccak-f\[1600\] (FIPS 202 §3.2) on four states. Sixteen registers do not hold 25 words, so a round goes from one array
//! to another, plane by plane, and sums up the columns of what it writes: a plane, the columns' sums and what theta adds
//! are fifteen registers. That is a seventh quicker than to leave it to the compiler what to spill.

use super::{ROUNDS, States};
use core::arch::x86_64::{
    __m256i, _mm256_andnot_si256, _mm256_or_si256, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_slli_epi64,
    _mm256_srli_epi64, _mm256_xor_si256,
};

/// One state's words side by side with those of three others.
type Words = [__m256i; 25];

/// Permutes all states. Only called where the feature was detected.
pub(super) fn permute(states: &mut States<4>) {
    #[expect(unsafe_code, reason = "the feature was detected, and a word of four states is one vector")]
    // SAFETY: `keccak256_many` hands this function out only after it has detected the feature. States are 25 times four
    // words, aligned to more than a vector is.
    unsafe {
        rounds(&mut *(&raw mut states.0).cast::<Words>());
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
    // Ends where it began.
    const { assert!(ROUNDS.len().is_multiple_of(2)) };
    let (mut from, mut to) = (a, &mut b);
    for constant in ROUNDS {
        round(from, to, &mut columns, constant);
        core::mem::swap(&mut from, &mut to);
    }
}

/// One round. `columns` are the sums over `from`'s columns and become those over `to`'s. It is called from one place, so that
/// it is part of the loop and they stay in registers.
#[inline]
#[target_feature(enable = "avx2")]
fn round(from: &Words, to: &mut Words, columns: &mut [__m256i; 5], constant: u64) {
    // What theta adds to each column.
    let mut added = [columns[0]; 5];
    for (x, added) in added.iter_mut().enumerate() {
        *added = xor(columns[(x + 4) % 5], rol::<1, 63>(columns[(x + 1) % 5]));
    }
    // Theta and rho of one word; where it stands in its plane is pi.
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
