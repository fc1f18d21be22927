//! Points of the curve y² = x³ + 7 in Jacobian coordinates, many side by side.
//!
//! (X, Y, Z) stands for (X / Z², Y / Z³); Z is zero at infinity. The formulas of addition are not complete: where both points
//! have one x, the result has a Z of zero, right or wrong, and every point computed from it has a Z of zero as well. So one test
//! at the end finds each lane that ever met such a case. It also finds points at infinity, which the formulas never leave.

use crate::{
    field::{Fe, Sum},
    lanes::Word,
};

/// A point with Z = 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Affine<W> {
    pub(crate) x: Fe<W>,
    pub(crate) y: Fe<W>,
}

/// A point in Jacobian coordinates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point<W> {
    pub(crate) x: Fe<W>,
    pub(crate) y: Fe<W>,
    pub(crate) z: Fe<W>,
}

/// A vector with its own functions for points: out of line, so that the main loop stays within the cache of instructions.
pub(crate) trait Curve: Word {
    /// [`Point::doubled`].
    fn double(point: &Point<Self>) -> Point<Self>;

    /// [`Point::plus`].
    fn add(point: &Point<Self>, other: &Affine<Self>, z: &Fe<Self>) -> (Point<Self>, Fe<Self>);
}

impl<W: Word> Affine<W> {
    #[inline(always)]
    pub(crate) fn point(self) -> Point<W> {
        Point { x: self.x, y: self.y, z: Fe::one() }
    }
}

impl<W: Word> Point<W> {
    /// Twice the point: three multiplications and four squares ("dbl-2009-l" of the Explicit-Formulas Database, with 4 X Y² for
    /// its D). No point of the curve has a y of zero, so there is no exception.
    #[inline(always)]
    pub(crate) fn doubled(&self) -> Self {
        let (a, b) = (self.x.square(), self.y.square());
        let c = b.square();
        let xb = self.x.mul(b).sum();
        let e: Sum<W, 3> = a.sum().shifted::<1, 2>().plus(a.sum());
        let e = e.carried();
        let x = e.squared().plus_sum::<16, 2>(xb.shifted::<3, 8>().negated()).reduced();
        let rest: Sum<W, 6> = xb.shifted::<2, 4>().plus(x.sum().negated::<2>());
        let y = e.times(rest.carried()).plus_sum::<16, 2>(c.sum().shifted::<3, 8>().negated()).reduced();
        let z = self.y.times(self.z).doubled::<2>().reduced();
        Self { x, y, z }
    }

    /// The sum with a point whose coordinates are of Z = 1 where this point's are of Z = `z`: eight multiplications and three
    /// squares ("madd-2004-hmv" of the same database). `z` differs from the point's own where the other point is of another
    /// isomorphic curve. Also returns the quotient of the Z of the result and of the point.
    #[inline(always)]
    pub(crate) fn plus(&self, other: &Affine<W>, z: &Fe<W>) -> (Self, Fe<W>) {
        let zz = z.square();
        let zzz = zz.mul(*z);
        let minus_y = self.y.sum().negated::<2>().carried();
        let h = other.x.times(zz).plus_sum::<2, 2>(self.x.sum().negated()).reduced();
        let r = other.y.times(zzz).plus_sum::<1, 2>(minus_y.sum()).reduced();
        let hh = h.square();
        let (hhh, v) = (h.mul(hh), self.x.mul(hh).sum());
        let less: Sum<W, 3> = hhh.sum().plus(v.shifted::<1, 2>());
        let x = r.squared().plus_sum::<6, 2>(less.negated()).reduced();
        let rest: Sum<W, 3> = v.plus(x.sum().negated::<2>());
        let y = r.times(rest.carried()).plus::<1, 2>(minus_y.times(hhh)).reduced();
        (Self { x, y, z: self.z.mul(h) }, h)
    }
}
