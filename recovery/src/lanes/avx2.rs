//! Four lanes with AVX2 and FMA. The instruction set multiplies no 52-bit integers, but doubles (`doubles.rs`).

use super::{
    LIMB_BITS, MOST, Mask, Row, Word,
    doubles::{HIGH, INTEGER, LOW},
};
use core::arch::x86_64::{
    __m256d, __m256i, _mm256_add_epi64, _mm256_add_pd, _mm256_and_si256, _mm256_blendv_epi8, _mm256_castpd_si256,
    _mm256_castsi256_pd, _mm256_cmpeq_epi64, _mm256_fmadd_pd, _mm256_loadu_si256, _mm256_movemask_pd, _mm256_or_si256,
    _mm256_permute2x128_si256, _mm256_set_epi64x, _mm256_set1_epi64x, _mm256_set1_pd, _mm256_setzero_si256,
    _mm256_slli_epi64, _mm256_srli_epi64, _mm256_storeu_si256, _mm256_sub_epi64, _mm256_sub_pd, _mm256_unpackhi_epi64,
    _mm256_unpacklo_epi64,
};

cpufeatures::new!(cpu, "avx2", "fma");

/// A vector of four lanes.
///
/// # Invariants
/// Code that is generic over this type runs only after [`available`] returned true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Four(__m256i);

#[inline]
pub(crate) fn available() -> bool {
    cpu::get()
}

/// Evaluates a call of intrinsics.
macro_rules! vector {
    ($call:expr) => {{
        #[expect(unsafe_code, reason = "the features were detected")]
        // SAFETY: by the invariant of `Four` the processor has the features.
        unsafe {
            $call
        }
    }};
}

impl Four {
    /// The low 52 bits as a double.
    #[inline(always)]
    fn double(self) -> __m256d {
        let limb = self.and(Self::splat((1 << LIMB_BITS) - 1)).or(Self::splat(INTEGER.to_bits()));
        vector!(_mm256_sub_pd(_mm256_castsi256_pd(limb.0), _mm256_set1_pd(INTEGER)))
    }

    #[inline(always)]
    fn lanes(mask: Mask) -> __m256i {
        let bit = vector!(_mm256_set_epi64x(8, 4, 2, 1));
        vector!(_mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(i64::from(mask)), bit), bit))
    }
}

impl Word for Four {
    const LANES: usize = 4;
    const NEGATIVE: u64 = 1;

    #[inline(always)]
    fn splat(value: u64) -> Self {
        Self(vector!(_mm256_set1_epi64x(value as i64)))
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self(vector!(_mm256_add_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self(vector!(_mm256_sub_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(vector!(_mm256_and_si256(self.0, other.0)))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(vector!(_mm256_or_si256(self.0, other.0)))
    }

    #[inline(always)]
    fn left<const BITS: u32>(self) -> Self {
        const { assert!(BITS < 64) };
        macro_rules! shift {
            ($($bits:literal)*) => {
                match BITS {
                    $($bits => Self(vector!(_mm256_slli_epi64::<$bits>(self.0))),)*
                    _ => unreachable!("no such shift is used"),
                }
            };
        }
        shift!(1 2 3 4 12 16 24 28 36 40 52)
    }

    #[inline(always)]
    fn right<const BITS: u32>(self) -> Self {
        macro_rules! shift {
            ($($bits:literal)*) => {
                match BITS {
                    $($bits => Self(vector!(_mm256_srli_epi64::<$bits>(self.0))),)*
                    _ => unreachable!("no such shift is used"),
                }
            };
        }
        shift!(12 16 24 28 36 40 48 52)
    }

    /// AVX2 has no such shift: a bias makes the word positive, and its shifted value is subtracted again.
    #[inline(always)]
    fn signed_right<const BITS: u32>(self) -> Self {
        let bias = 1 << 63;
        self.plus(Self::splat(bias)).right::<BITS>().minus(Self::splat(bias >> BITS))
    }

    #[inline(always)]
    fn multiply_add(self, other: Self, low: Self, high: Self) -> (Self, Self) {
        let (a, b) = (self.double(), other.double());
        let upper = vector!(_mm256_fmadd_pd(a, b, _mm256_set1_pd(HIGH)));
        let rest = vector!(_mm256_fmadd_pd(a, b, _mm256_sub_pd(_mm256_set1_pd(HIGH), upper)));
        let lower = vector!(_mm256_add_pd(rest, _mm256_set1_pd(LOW)));
        let upper = Self(vector!(_mm256_castpd_si256(upper))).minus(Self::splat(HIGH.to_bits()));
        let lower = Self(vector!(_mm256_castpd_si256(lower))).minus(Self::splat(LOW.to_bits()));
        (low.plus(lower), high.plus(upper))
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        Self(vector!(_mm256_blendv_epi8(no.0, yes.0, Self::lanes(mask))))
    }

    #[inline(always)]
    fn zeros(self) -> Mask {
        let zeros = vector!(_mm256_cmpeq_epi64(self.0, _mm256_setzero_si256()));
        vector!(_mm256_movemask_pd(_mm256_castsi256_pd(zeros))) as Mask
    }

    #[inline(always)]
    fn gather(rows: &[&Row; MOST]) -> [Self; 8] {
        let mut out = [Self::splat(0); 8];
        for half in 0..2 {
            let mut vectors = [Self::splat(0); 4];
            for (vector, row) in vectors.iter_mut().zip(rows) {
                #[expect(unsafe_code, reason = "a vector load")]
                // SAFETY: by the invariant of `Four`, and half a row is as many bytes as a vector has.
                unsafe {
                    *vector = Self(_mm256_loadu_si256(row.0.as_ptr().add(4 * half).cast()));
                }
            }
            let vectors = transposed(vectors);
            out[4 * half..4 * half + 4].copy_from_slice(&vectors);
        }
        out
    }

    #[inline(always)]
    fn scatter(words: [Self; 8], rows: &mut [Row; MOST]) {
        for half in 0..2 {
            let mut vectors = [Self::splat(0); 4];
            vectors.copy_from_slice(&words[4 * half..4 * half + 4]);
            let vectors = transposed(vectors);
            for (vector, row) in vectors.iter().zip(rows.iter_mut()) {
                #[expect(unsafe_code, reason = "a vector store")]
                // SAFETY: by the invariant of `Four`, and half a row is as many bytes as a vector has.
                unsafe {
                    _mm256_storeu_si256(row.0.as_mut_ptr().add(4 * half).cast(), vector.0);
                }
            }
        }
    }
}

/// Transposes four vectors of four words.
#[inline(always)]
fn transposed([a, b, c, d]: [Four; 4]) -> [Four; 4] {
    let (low, high) = (vector!(_mm256_unpacklo_epi64(a.0, b.0)), vector!(_mm256_unpackhi_epi64(a.0, b.0)));
    let (low_too, high_too) = (vector!(_mm256_unpacklo_epi64(c.0, d.0)), vector!(_mm256_unpackhi_epi64(c.0, d.0)));
    [
        Four(vector!(_mm256_permute2x128_si256::<0x20>(low, low_too))),
        Four(vector!(_mm256_permute2x128_si256::<0x20>(high, high_too))),
        Four(vector!(_mm256_permute2x128_si256::<0x31>(low, low_too))),
        Four(vector!(_mm256_permute2x128_si256::<0x31>(high, high_too))),
    ]
}
