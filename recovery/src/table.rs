//! Odd multiples of a point per lane, without an inversion.
//!
//! With D = 2 R, the multiples are R, R + D, R + 2 D and so on. On the curve that is isomorphic to the curve by Z of D, D has a Z
//! of one, so each addition is a mixed one. Their results have different Z, each a known multiple of the one before. Scaled to
//! the last of them, all lie on one isomorphic curve with a Z of one, where the main loop adds them by mixed additions again.
//! (libsecp256k1 does so for odd multiples, too, in `ecmult_impl.h`.)

use crate::{
    curve::{Affine, Curve},
    field::Fe,
    group::Windows,
    lanes::{MOST, Row, Word},
    scalar::WINDOW,
};

/// Number of odd multiples below 2^[`WINDOW`].
const MULTIPLES: usize = 1 << (WINDOW - 1);

/// Odd multiples of a point in each lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<W> {
    /// By multiple, then by lane: row i holds the multiple 2 i + 1.
    rows: [[Row; MOST]; MULTIPLES],
    /// Z of all multiples on the curve.
    pub(crate) z: Fe<W>,
}

impl<W: Curve> Table<W> {
    #[inline(always)]
    pub(crate) fn new(point: Affine<W>) -> Self {
        let twice = W::double(&point.point());
        let zz = twice.z.square();
        let step = Affine { x: twice.x, y: twice.y };
        let first = Affine { x: point.x.mul(zz), y: point.y.mul(zz.mul(twice.z)) };
        let mut points = [first.point(); MULTIPLES];
        let mut ratios = [Fe::one(); MULTIPLES];
        for at in 1..MULTIPLES {
            let before = points[at - 1];
            (points[at], ratios[at]) = W::add(&before, &step, &before.z);
        }
        let mut table = Self { rows: [[Row([0; 8]); MOST]; MULTIPLES], z: points[MULTIPLES - 1].z.mul(twice.z) };
        // Quotient of the last Z and the multiple's.
        let mut scale = Fe::one();
        for at in (0..MULTIPLES).rev() {
            let square = scale.square();
            let (x, y) = (points[at].x.mul(square), points[at].y.mul(square.mul(scale)));
            store(x, y, &mut table.rows[at]);
            scale = scale.mul(ratios[at]);
        }
        table
    }

    /// The multiple of each lane.
    #[inline(always)]
    pub(crate) fn multiple(&self, digit: &Windows<u8>) -> Affine<W> {
        let mut rows = [&self.rows[0][0]; MOST];
        for (lane, (row, index)) in rows.iter_mut().zip(digit.index).enumerate().take(W::LANES) {
            *row = &self.rows[usize::from(index) % MULTIPLES][lane];
        }
        load(&rows).negated_where(digit.negative)
    }
}

impl<W: Word> Affine<W> {
    #[inline(always)]
    pub(crate) fn negated_where(self, mask: u8) -> Self {
        Self { x: self.x, y: self.y.negated_where(mask) }
    }
}

/// Reads a point per lane.
#[inline(always)]
pub(crate) fn load<W: Word>(rows: &[&Row; MOST]) -> Affine<W> {
    let [a, b, c, d, e, f, g, h] = W::gather(rows);
    Affine { x: Fe::from_words([a, b, c, d]), y: Fe::from_words([e, f, g, h]) }
}

/// Writes a point per lane, canonical.
#[inline(always)]
pub(crate) fn store<W: Word>(x: Fe<W>, y: Fe<W>, rows: &mut [Row; MOST]) {
    let ([a, b, c, d], [e, f, g, h]) = (x.canonical().words(), y.canonical().words());
    W::scatter([a, b, c, d, e, f, g, h], rows);
}
