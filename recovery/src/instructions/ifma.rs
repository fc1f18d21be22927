//! The kernel compiled for AVX-512 IFMA.

use crate::{
    curve::{Affine, Curve, Point},
    field::Fe,
    generator::Generator,
    group::{Group, Keys},
    kernel,
    lanes::ifma::Eight,
};

/// Recovers the keys of all groups. To call it without [`Eight`]'s instructions is undefined behaviour.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn recover(groups: &[Group], generator: &Generator, keys: &mut [Keys]) {
    kernel::recover::<Eight>(groups, generator, keys);
}

impl Curve for Eight {
    #[inline(always)]
    fn double(point: &Point<Self>) -> Point<Self> {
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx512ifma")]
        fn inner(point: &Point<Eight>) -> Point<Eight> {
            point.doubled()
        }
        #[expect(unsafe_code, reason = "the features were detected")]
        // SAFETY: by the invariant of `Eight` the processor has the features.
        unsafe {
            inner(point)
        }
    }

    #[inline(always)]
    fn add(point: &Point<Self>, other: &Affine<Self>, z: &Fe<Self>) -> (Point<Self>, Fe<Self>) {
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx512ifma")]
        fn inner(point: &Point<Eight>, other: &Affine<Eight>, z: &Fe<Eight>) -> (Point<Eight>, Fe<Eight>) {
            point.plus(other, z)
        }
        #[expect(unsafe_code, reason = "the features were detected")]
        // SAFETY: by the invariant of `Eight` the processor has the features.
        unsafe {
            inner(point, other, z)
        }
    }
}
