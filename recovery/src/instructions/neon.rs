//! The kernel compiled for Arm's vector instructions.

use crate::{
    curve::{Affine, Curve, Point},
    field::Fe,
    generator::Generator,
    group::{Group, Keys},
    kernel,
    lanes::neon::Two,
};

/// Recovers the keys of all groups.
pub(super) fn recover(groups: &[Group], generator: &Generator, keys: &mut [Keys]) {
    kernel::recover::<Two>(groups, generator, keys);
}

impl Curve for Two {
    #[inline(never)]
    fn double(point: &Point<Self>) -> Point<Self> {
        point.doubled()
    }

    #[inline(never)]
    fn add(point: &Point<Self>, other: &Affine<Self>, z: &Fe<Self>) -> (Point<Self>, Fe<Self>) {
        point.plus(other, z)
    }
}
