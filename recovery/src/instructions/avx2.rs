//! The kernel compiled for AVX2 and FMA.

use crate::{
    curve::{Affine, Curve, Point},
    field::Fe,
    generator::Generator,
    group::{Group, Keys},
    kernel,
    lanes::avx2::Four,
};

/// Recovers the keys of all groups. To call it without [`Four`]'s instructions is undefined behaviour.
#[target_feature(enable = "avx2,fma")]
pub(super) fn recover(groups: &[Group], generator: &Generator, keys: &mut [Keys]) {
    kernel::recover::<Four>(groups, generator, keys);
}

impl Curve for Four {
    #[inline(always)]
    fn double(point: &Point<Self>) -> Point<Self> {
        #[inline(never)]
        #[target_feature(enable = "avx2,fma")]
        fn inner(point: &Point<Four>) -> Point<Four> {
            point.doubled()
        }
        #[expect(unsafe_code, reason = "the features were detected")]
        // SAFETY: by the invariant of `Four` the processor has the features.
        unsafe {
            inner(point)
        }
    }

    #[inline(always)]
    fn add(point: &Point<Self>, other: &Affine<Self>, z: &Fe<Self>) -> (Point<Self>, Fe<Self>) {
        #[inline(never)]
        #[target_feature(enable = "avx2,fma")]
        fn inner(point: &Point<Four>, other: &Affine<Four>, z: &Fe<Four>) -> (Point<Four>, Fe<Four>) {
            point.plus(other, z)
        }
        #[expect(unsafe_code, reason = "the features were detected")]
        // SAFETY: by the invariant of `Four` the processor has the features.
        unsafe {
            inner(point, other, z)
        }
    }
}
