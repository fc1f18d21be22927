//! Eight lanes with AVX-512 IFMA, whose multiplication of 52-bit integers the radix of the field is made for.

use super::{MOST, Mask, Row, Word};
use core::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_loadu_si512, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64,
    _mm512_mask_blend_epi64, _mm512_or_si512, _mm512_set1_epi64, _mm512_shuffle_i64x2, _mm512_slli_epi64,
    _mm512_srai_epi64, _mm512_srli_epi64, _mm512_storeu_si512, _mm512_sub_epi64, _mm512_testn_epi64_mask,
    _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
};

cpufeatures::new!(cpu, "avx512f", "avx512ifma");

/// A vector of eight lanes.
///
/// # Invariants
/// Code that is generic over this type runs only after [`available`] returned true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eight(__m512i);

#[inline]
pub(crate) fn available() -> bool {
    cpu::get()
}

/// Evaluates a call of intrinsics.
macro_rules! vector {
    ($call:expr) => {{
        #[expect(unsafe_code, reason = "the features were detected")]
        // SAFETY: by the invariant of `Eight` the processor has the features.
        unsafe {
            $call
        }
    }};
}

impl Word for Eight {
    const LANES: usize = 8;
    const NEGATIVE: u64 = 0;

    #[inline(always)]
    fn splat(value: u64) -> Self {
        Self(vector!(_mm512_set1_epi64(value as i64)))
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self(vector!(_mm512_add_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self(vector!(_mm512_sub_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(vector!(_mm512_and_si512(self.0, other.0)))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(vector!(_mm512_or_si512(self.0, other.0)))
    }

    #[inline(always)]
    fn left<const BITS: u32>(self) -> Self {
        Self(vector!(_mm512_slli_epi64::<BITS>(self.0)))
    }

    #[inline(always)]
    fn right<const BITS: u32>(self) -> Self {
        Self(vector!(_mm512_srli_epi64::<BITS>(self.0)))
    }

    #[inline(always)]
    fn signed_right<const BITS: u32>(self) -> Self {
        Self(vector!(_mm512_srai_epi64::<BITS>(self.0)))
    }

    #[inline(always)]
    fn multiply_add(self, other: Self, low: Self, high: Self) -> (Self, Self) {
        let low = vector!(_mm512_madd52lo_epu64(low.0, self.0, other.0));
        let high = vector!(_mm512_madd52hi_epu64(high.0, self.0, other.0));
        (Self(low), Self(high))
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        Self(vector!(_mm512_mask_blend_epi64(mask, no.0, yes.0)))
    }

    #[inline(always)]
    fn zeros(self) -> Mask {
        vector!(_mm512_testn_epi64_mask(self.0, self.0))
    }

    #[inline(always)]
    fn gather(rows: &[&Row; MOST]) -> [Self; 8] {
        let mut vectors = [Self::splat(0); 8];
        for (vector, row) in vectors.iter_mut().zip(rows) {
            #[expect(unsafe_code, reason = "a vector load")]
            // SAFETY: by the invariant of `Eight`, and a row is as many bytes as a vector has.
            unsafe {
                *vector = Self(_mm512_loadu_si512(row.0.as_ptr().cast()));
            }
        }
        transposed(vectors)
    }

    #[inline(always)]
    fn scatter(words: [Self; 8], rows: &mut [Row; MOST]) {
        let words = transposed(words);
        for (vector, row) in words.iter().zip(rows) {
            #[expect(unsafe_code, reason = "a vector store")]
            // SAFETY: by the invariant of `Eight`, and a row is as many bytes as a vector has.
            unsafe {
                _mm512_storeu_si512(row.0.as_mut_ptr().cast(), vector.0);
            }
        }
    }
}

/// Transposes eight vectors of eight words, in three rounds of eight shuffles.
#[inline(always)]
fn transposed(v: [Eight; 8]) -> [Eight; 8] {
    let mut pairs = v;
    for at in 0..4 {
        let (a, b) = (v[2 * at].0, v[2 * at + 1].0);
        pairs[2 * at] = Eight(vector!(_mm512_unpacklo_epi64(a, b)));
        pairs[2 * at + 1] = Eight(vector!(_mm512_unpackhi_epi64(a, b)));
    }
    let mut out = v;
    for odd in 0..2 {
        let (a, b, c, d) = (pairs[odd].0, pairs[odd + 2].0, pairs[odd + 4].0, pairs[odd + 6].0);
        let low = (vector!(_mm512_shuffle_i64x2::<0x88>(a, b)), vector!(_mm512_shuffle_i64x2::<0x88>(c, d)));
        let high = (vector!(_mm512_shuffle_i64x2::<0xdd>(a, b)), vector!(_mm512_shuffle_i64x2::<0xdd>(c, d)));
        out[odd] = Eight(vector!(_mm512_shuffle_i64x2::<0x88>(low.0, low.1)));
        out[odd + 2] = Eight(vector!(_mm512_shuffle_i64x2::<0x88>(high.0, high.1)));
        out[odd + 4] = Eight(vector!(_mm512_shuffle_i64x2::<0xdd>(low.0, low.1)));
        out[odd + 6] = Eight(vector!(_mm512_shuffle_i64x2::<0xdd>(high.0, high.1)));
    }
    out
}
