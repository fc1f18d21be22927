//! The field of integers modulo p = 2^256 - 2^32 - 977, many elements side by side.
//!
//! An element is five limbs of 52 bits, the least first: v = Σ l\[i\] · 2^(52 i). Three types say how large limbs may be, so that
//! the compiler checks every bound:
//!
//! ```text
//! Fe            tight: l[0..4] < 2^52 and l[4] < 2^49. The only operand of a multiplication, which reads 52 bits.
//! Sum<M>        limbs at most M times the largest of a Fe. What additions and negations give.
//! Products<M>   ten columns of 52 bits, each below M · 2^56, together below M · 2^514. What multiplications give.
//! ```
//!
//! [`Sum::carried`] and [`Products::reduced`] lead back to `Fe`. Neither gives the one smallest representative, which
//! [`Fe::canonical`] does.

mod power;
#[cfg(test)]
mod tests;

pub(crate) use power::{inverted, square_roots};

use crate::lanes::{LIMB_BITS, Mask, Word};

/// Number of limbs.
const LIMBS: usize = 5;

/// Bits of the top limb in a canonical element.
const TOP_BITS: u32 = 256 - 4 * LIMB_BITS;

const LIMB: u64 = (1 << LIMB_BITS) - 1;
const TOP: u64 = (1 << TOP_BITS) - 1;

/// 2^256 modulo p.
const FOLD: u64 = 0x1_0000_03d1;

/// Limbs of p.
const P: [u64; LIMBS] = [LIMB + 1 - FOLD, LIMB, LIMB, LIMB, TOP];

/// Maximum limbs of a tight element.
const TIGHT: [u64; LIMBS] = [LIMB, LIMB, LIMB, LIMB, 2 * TOP];

// The limbs of 2p are at least those of any tight element, so that `Sum::negated` borrows nowhere.
const _: () = {
    let mut at = 0;
    while at < LIMBS {
        assert!(2 * P[at] >= TIGHT[at]);
        at += 1;
    }
};

/// A tight element: the operand of multiplications.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fe<W>([W; LIMBS]);

/// A sum of tight elements, at most `M` times as large in each limb.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum<W, const M: u64>([W; LIMBS]);

/// A sum of at most `M` products of tight elements, unreduced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Products<W, const M: u64>([W; 2 * LIMBS]);

impl<W: Word> Fe<W> {
    /// The same element in every lane, given as four words of 64 bits, the least first. Must be below p.
    #[inline(always)]
    pub(crate) fn splat(words: [u64; 4]) -> Self {
        Self::from_words(words.map(W::splat))
    }

    #[inline(always)]
    pub(crate) fn one() -> Self {
        Self::splat([1, 0, 0, 0])
    }

    /// The element of four words of 64 bits, the least first. Any words will do.
    #[inline(always)]
    pub(crate) fn from_words([a, b, c, d]: [W; 4]) -> Self {
        let limb = W::splat(LIMB);
        Self([
            a.and(limb),
            a.right::<52>().or(b.left::<12>()).and(limb),
            b.right::<40>().or(c.left::<24>()).and(limb),
            c.right::<28>().or(d.left::<36>()).and(limb),
            d.right::<16>(),
        ])
    }

    /// Four words of 64 bits, the least first. The element must be canonical.
    #[inline(always)]
    pub(crate) fn words(self) -> [W; 4] {
        let [a, b, c, d, e] = self.0;
        [
            a.or(b.left::<52>()),
            b.right::<12>().or(c.left::<40>()),
            c.right::<24>().or(d.left::<28>()),
            d.right::<36>().or(e.left::<16>()),
        ]
    }

    #[inline(always)]
    pub(crate) const fn sum(self) -> Sum<W, 1> {
        Sum(self.0)
    }

    /// The product, unreduced: column k has at most five low and five high halves of products of limbs.
    #[inline(always)]
    pub(crate) fn times(self, other: Self) -> Products<W, 1> {
        let mut columns = [W::splat(0); 2 * LIMBS];
        for i in 0..LIMBS {
            for j in 0..LIMBS {
                let (low, high) = self.0[i].multiply_add(other.0[j], columns[i + j], columns[i + j + 1]);
                (columns[i + j], columns[i + j + 1]) = (low, high);
            }
        }
        Products(columns)
    }

    /// The square, unreduced: each product of two different limbs is computed once and doubled.
    #[inline(always)]
    pub(crate) fn squared(self) -> Products<W, 1> {
        let mut columns = [W::splat(0); 2 * LIMBS];
        for i in 0..LIMBS {
            for j in i + 1..LIMBS {
                let (low, high) = self.0[i].multiply_add(self.0[j], columns[i + j], columns[i + j + 1]);
                (columns[i + j], columns[i + j + 1]) = (low, high);
            }
        }
        for column in &mut columns {
            *column = column.plus(*column);
        }
        for i in 0..LIMBS {
            let (low, high) = self.0[i].multiply_add(self.0[i], columns[2 * i], columns[2 * i + 1]);
            (columns[2 * i], columns[2 * i + 1]) = (low, high);
        }
        Products(columns)
    }

    #[inline(always)]
    pub(crate) fn mul(self, other: Self) -> Self {
        self.times(other).reduced()
    }

    #[inline(always)]
    pub(crate) fn square(self) -> Self {
        self.squared().reduced()
    }

    /// The representative below p.
    #[inline(always)]
    pub(crate) fn canonical(self) -> Self {
        // Below 2^256 + 2^34: the top limb has at most one bit above 2^256.
        let mut v = self.0;
        folded(&mut v);
        carried(&mut v);
        // v + FOLD reaches 2^256 just where v reaches p, and its rest is v - p.
        let mut less = v;
        less[0] = less[0].plus(W::splat(FOLD));
        carried(&mut less);
        let below = less[4].right::<TOP_BITS>().zeros();
        less[4] = less[4].and(W::splat(TOP));
        for (limb, less) in v.iter_mut().zip(less) {
            *limb = W::select(below, *limb, less);
        }
        Self(v)
    }

    /// The lanes in which the element is zero modulo p.
    #[inline(always)]
    pub(crate) fn zeros(self) -> Mask {
        let [a, b, c, d, e] = self.canonical().0;
        a.or(b).or(c).or(d).or(e).zeros()
    }

    /// The lanes in which the element, which must be canonical, is odd.
    #[inline(always)]
    pub(crate) fn odd(self) -> Mask {
        !self.0[0].and(W::splat(1)).zeros()
    }

    #[inline(always)]
    pub(crate) fn select(mask: Mask, yes: Self, no: Self) -> Self {
        let mut out = no.0;
        for (limb, yes) in out.iter_mut().zip(yes.0) {
            *limb = W::select(mask, yes, *limb);
        }
        Self(out)
    }

    /// Negates the element in the lanes of `mask`.
    #[inline(always)]
    pub(crate) fn negated_where(self, mask: Mask) -> Self {
        Self::select(mask, self.sum().negated::<2>().carried(), self)
    }
}

impl<W: Word, const M: u64> Sum<W, M> {
    #[inline(always)]
    pub(crate) fn plus<const N: u64, const R: u64>(self, other: Sum<W, N>) -> Sum<W, R> {
        const { assert!(R == M + N) };
        let mut out = self.0;
        for (limb, other) in out.iter_mut().zip(other.0) {
            *limb = limb.plus(other);
        }
        Sum(out)
    }

    /// Multiplies by 2^`BITS`.
    #[inline(always)]
    pub(crate) fn shifted<const BITS: u32, const R: u64>(self) -> Sum<W, R> {
        const { assert!(R == M << BITS) };
        let mut out = self.0;
        for limb in &mut out {
            *limb = limb.left::<BITS>();
        }
        Sum(out)
    }

    /// 2`M`p minus the sum, limb by limb.
    #[inline(always)]
    pub(crate) fn negated<const R: u64>(self) -> Sum<W, R> {
        const { assert!(R == 2 * M) };
        let mut out = self.0;
        for (limb, p) in out.iter_mut().zip(P) {
            *limb = W::splat(2 * M * p).minus(*limb);
        }
        Sum(out)
    }

    /// The tight element of the same value modulo p.
    #[inline(always)]
    pub(crate) fn carried(self) -> Fe<W> {
        // Limbs below 2^58. Folding adds less than 2^43 to the lowest, and a carry is below 2^7.
        const { assert!(M <= 32) };
        let mut v = self.0;
        folded(&mut v);
        carried(&mut v);
        Fe(v)
    }
}

impl<W: Word, const M: u64> Products<W, M> {
    #[inline(always)]
    pub(crate) fn plus<const N: u64, const R: u64>(self, other: Products<W, N>) -> Products<W, R> {
        const { assert!(R == M + N) };
        let mut out = self.0;
        for (column, other) in out.iter_mut().zip(other.0) {
            *column = column.plus(other);
        }
        Products(out)
    }

    /// Adds a sum, which takes no more room than a product.
    #[inline(always)]
    pub(crate) fn plus_sum<const N: u64, const R: u64>(self, other: Sum<W, N>) -> Products<W, R> {
        const { assert!(N <= 16 && R == M + 1) };
        let mut out = self.0;
        for (limb, other) in out.iter_mut().zip(other.0) {
            *limb = limb.plus(other);
        }
        Products(out)
    }

    #[inline(always)]
    pub(crate) fn doubled<const R: u64>(self) -> Products<W, R> {
        const { assert!(R == 2 * M) };
        let mut out = self.0;
        for column in &mut out {
            *column = column.plus(*column);
        }
        Products(out)
    }

    /// The tight element of the same value modulo p.
    #[inline(always)]
    pub(crate) fn reduced(self) -> Fe<W> {
        const { assert!(M <= 8) };
        let mut c = self.0;
        if W::NEGATIVE > 0 {
            // A multiple of p that is larger than what is negative: at most 5 M + 2 low halves of -2^51.
            for (column, p) in c.iter_mut().zip(P) {
                *column = column.plus(W::splat(64 * M * p));
            }
        }
        // The upper five columns weigh 2^260 and more. Carried, the last is below M · 2^(514 - 468) = M · 2^46; of the
        // others a multiplication reads the low 52 bits.
        for k in LIMBS..2 * LIMBS - 1 {
            c[k + 1] = c[k + 1].plus(c[k].signed_right::<LIMB_BITS>());
        }
        // They are multiplied by 2^260 modulo p, below 2^37. What exceeds the lower columns is below M · 2^31.
        let fold = W::splat(FOLD << (LIMB_BITS - TOP_BITS));
        let mut over = W::splat(0);
        for k in 0..LIMBS - 1 {
            (c[k], c[k + 1]) = c[k + LIMBS].multiply_add(fold, c[k], c[k + 1]);
        }
        (c[LIMBS - 1], over) = c[2 * LIMBS - 1].multiply_add(fold, c[LIMBS - 1], over);
        // Everything from 2^256 on, below M · 2^36, is multiplied by 2^256 modulo p.
        let top = c[4].signed_right::<TOP_BITS>().plus(over.left::<{ LIMB_BITS - TOP_BITS }>());
        c[4] = c[4].and(W::splat(TOP));
        (c[0], c[1]) = top.multiply_add(W::splat(FOLD), c[0], c[1]);
        // Columns are below 2^62, so less than 2^10 is carried into the top limb, which stays tight.
        let mut v = [c[0], c[1], c[2], c[3], c[4]];
        carried(&mut v);
        Fe(v)
    }
}

/// Multiplies the bits of the top limb from 2^256 on by 2^256 modulo p and adds them to the lowest limb. There must be less
/// than 2^19 of them.
#[inline(always)]
fn folded<W: Word>(v: &mut [W; LIMBS]) {
    let top = v[4].right::<TOP_BITS>();
    v[4] = v[4].and(W::splat(TOP));
    (v[0], _) = top.multiply_add(W::splat(FOLD), v[0], W::splat(0));
}

/// Carries from limb to limb. The top limb keeps what comes.
#[inline(always)]
fn carried<W: Word>(v: &mut [W; LIMBS]) {
    for i in 0..LIMBS - 1 {
        v[i + 1] = v[i + 1].plus(v[i].signed_right::<LIMB_BITS>());
        v[i] = v[i].and(W::splat(LIMB));
    }
}
