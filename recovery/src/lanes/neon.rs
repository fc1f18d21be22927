//! Two lanes with Arm's vector instructions, which every 64-bit Arm processor has. Products as with AVX2 (`avx2.rs`): two fused
//! multiplications of doubles give both halves.

use super::{
    LIMB_BITS, MOST, Mask, Row, Word,
    doubles::{HIGH, INTEGER, LOW},
};
use core::arch::aarch64::{
    float64x2_t, uint64x2_t, vaddq_f64, vaddq_u64, vandq_u64, vbslq_u64, vceqzq_u64, vcombine_u64, vcreate_u64,
    vdupq_n_f64, vdupq_n_s64, vdupq_n_u64, vfmaq_f64, vgetq_lane_u64, vld1q_u64, vorrq_u64, vreinterpretq_f64_u64,
    vreinterpretq_s64_u64, vreinterpretq_u64_f64, vreinterpretq_u64_s64, vshlq_s64, vshlq_u64, vst1q_u64, vsubq_f64,
    vsubq_u64, vtrn1q_u64, vtrn2q_u64,
};

/// A vector of two lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Two(uint64x2_t);

/// Evaluates a call of intrinsics.
macro_rules! vector {
    ($call:expr) => {{
        #[expect(unsafe_code, reason = "the target always has the feature")]
        #[allow(unused_unsafe, reason = "an intrinsic is safe where the target has its feature")]
        // SAFETY: `neon` belongs to every target of this architecture that has a standard library.
        unsafe {
            $call
        }
    }};
}

impl Two {
    /// The low 52 bits as a double.
    #[inline(always)]
    fn double(self) -> float64x2_t {
        let limb = self.and(Self::splat((1 << LIMB_BITS) - 1)).or(Self::splat(INTEGER.to_bits()));
        vector!(vsubq_f64(vreinterpretq_f64_u64(limb.0), vdupq_n_f64(INTEGER)))
    }
}

impl Word for Two {
    const LANES: usize = 2;
    const NEGATIVE: u64 = 1;

    #[inline(always)]
    fn splat(value: u64) -> Self {
        Self(vector!(vdupq_n_u64(value)))
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self(vector!(vaddq_u64(self.0, other.0)))
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self(vector!(vsubq_u64(self.0, other.0)))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(vector!(vandq_u64(self.0, other.0)))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(vector!(vorrq_u64(self.0, other.0)))
    }

    #[inline(always)]
    fn left<const BITS: u32>(self) -> Self {
        Self(vector!(vshlq_u64(self.0, vdupq_n_s64(i64::from(BITS)))))
    }

    #[inline(always)]
    fn right<const BITS: u32>(self) -> Self {
        Self(vector!(vshlq_u64(self.0, vdupq_n_s64(-i64::from(BITS)))))
    }

    #[inline(always)]
    fn signed_right<const BITS: u32>(self) -> Self {
        let shifted = vector!(vshlq_s64(vreinterpretq_s64_u64(self.0), vdupq_n_s64(-i64::from(BITS))));
        Self(vector!(vreinterpretq_u64_s64(shifted)))
    }

    #[inline(always)]
    fn multiply_add(self, other: Self, low: Self, high: Self) -> (Self, Self) {
        let (a, b) = (self.double(), other.double());
        let upper = vector!(vfmaq_f64(vdupq_n_f64(HIGH), a, b));
        let rest = vector!(vfmaq_f64(vsubq_f64(vdupq_n_f64(HIGH), upper), a, b));
        let lower = vector!(vaddq_f64(rest, vdupq_n_f64(LOW)));
        let upper = Self(vector!(vreinterpretq_u64_f64(upper))).minus(Self::splat(HIGH.to_bits()));
        let lower = Self(vector!(vreinterpretq_u64_f64(lower))).minus(Self::splat(LOW.to_bits()));
        (low.plus(lower), high.plus(upper))
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        let lane = |bit: Mask| if mask & bit == 0 { 0 } else { u64::MAX };
        let lanes = vector!(vcombine_u64(vcreate_u64(lane(1)), vcreate_u64(lane(2))));
        Self(vector!(vbslq_u64(lanes, yes.0, no.0)))
    }

    #[inline(always)]
    fn zeros(self) -> Mask {
        let zeros = vector!(vceqzq_u64(self.0));
        let (first, second) = vector!((vgetq_lane_u64::<0>(zeros), vgetq_lane_u64::<1>(zeros)));
        (first & 1 | second & 2) as Mask
    }

    #[inline(always)]
    fn gather(rows: &[&Row; MOST]) -> [Self; 8] {
        let mut out = [Self::splat(0); 8];
        for (pair, words) in out.chunks_exact_mut(2).enumerate() {
            let [first, second] = [rows[0], rows[1]].map(|row| {
                let words = &row.0[2 * pair..2 * pair + 2];
                // SAFETY: the slice has as many words as a vector.
                vector!(vld1q_u64(words.as_ptr()))
            });
            words[0] = Self(vector!(vtrn1q_u64(first, second)));
            words[1] = Self(vector!(vtrn2q_u64(first, second)));
        }
        out
    }

    #[inline(always)]
    fn scatter(words: [Self; 8], rows: &mut [Row; MOST]) {
        for (pair, words) in words.chunks_exact(2).enumerate() {
            let vectors = [vector!(vtrn1q_u64(words[0].0, words[1].0)), vector!(vtrn2q_u64(words[0].0, words[1].0))];
            for (vector, row) in vectors.into_iter().zip(rows.iter_mut()) {
                let words = &mut row.0[2 * pair..2 * pair + 2];
                // SAFETY: the slice has as many words as a vector.
                vector!(vst1q_u64(words.as_mut_ptr(), vector));
            }
        }
    }
}
