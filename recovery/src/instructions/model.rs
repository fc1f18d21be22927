//! The kernel in plain integers, for tests.

use crate::{
    curve::{Affine, Curve, Point},
    field::Fe,
    generator::Generator,
    group::{Group, Keys},
    kernel,
    lanes::model::Model,
};

/// Recovers the keys of all groups.
pub(super) fn recover(groups: &[Group], generator: &Generator, keys: &mut [Keys]) {
    kernel::recover::<Model>(groups, generator, keys);
}

impl Curve for Model {
    fn double(point: &Point<Self>) -> Point<Self> {
        point.doubled()
    }

    fn add(point: &Point<Self>, other: &Affine<Self>, z: &Fe<Self>) -> (Point<Self>, Fe<Self>) {
        point.plus(other, z)
    }
}
