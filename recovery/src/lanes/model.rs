//! Eight lanes in plain integers: the meaning of [`Word`], by which tests judge the instruction sets.
//!
//! The operations stay functions of their own: inlined into every formula of the curve they compile for a minute and a half.

use super::{LIMB_BITS, MOST, Mask, Row, Word};

/// Eight words. Arithmetic that would leave 63 bits panics instead of wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Model(pub(crate) [u64; MOST]);

impl Model {
    fn each(self, other: Self, call: impl Fn(u64, u64) -> u64) -> Self {
        Self(core::array::from_fn(|lane| call(self.0[lane], other.0[lane])))
    }
}

impl Word for Model {
    const LANES: usize = MOST;
    const NEGATIVE: u64 = 0;

    fn splat(value: u64) -> Self {
        Self([value; MOST])
    }

    #[inline(never)]
    fn plus(self, other: Self) -> Self {
        self.each(other, |a, b| a.checked_add(b).filter(|sum| sum >> 63 == 0).expect("a sum below 2^63"))
    }

    #[inline(never)]
    fn minus(self, other: Self) -> Self {
        self.each(other, |a, b| a.checked_sub(b).expect("a difference that is not negative"))
    }

    #[inline(never)]
    fn and(self, other: Self) -> Self {
        self.each(other, |a, b| a & b)
    }

    #[inline(never)]
    fn or(self, other: Self) -> Self {
        self.each(other, |a, b| a | b)
    }

    #[inline(never)]
    fn left<const BITS: u32>(self) -> Self {
        self.each(self, |word, _| word << BITS)
    }

    #[inline(never)]
    fn right<const BITS: u32>(self) -> Self {
        self.each(self, |word, _| word >> BITS)
    }

    #[inline(never)]
    fn signed_right<const BITS: u32>(self) -> Self {
        self.each(self, |word, _| ((word as i64) >> BITS) as u64)
    }

    #[inline(never)]
    fn multiply_add(self, other: Self, low: Self, high: Self) -> (Self, Self) {
        let limb = (1 << LIMB_BITS) - 1;
        let product = |a: u64, b: u64| u128::from(a & limb) * u128::from(b & limb);
        let parts = (
            self.each(other, |a, b| product(a, b) as u64 & limb),
            self.each(other, |a, b| (product(a, b) >> LIMB_BITS) as u64),
        );
        (low.plus(parts.0), high.plus(parts.1))
    }

    #[inline(never)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        Self(core::array::from_fn(|lane| if mask >> lane & 1 == 1 { yes.0[lane] } else { no.0[lane] }))
    }

    #[inline(never)]
    fn zeros(self) -> Mask {
        (0..MOST).filter(|lane| self.0[*lane] == 0).fold(0, |mask, lane| mask | 1 << lane)
    }

    #[inline(never)]
    fn gather(rows: &[&Row; MOST]) -> [Self; 8] {
        core::array::from_fn(|word| Self(rows.map(|row| row.0[word])))
    }

    #[inline(never)]
    fn scatter(words: [Self; 8], rows: &mut [Row; MOST]) {
        for (lane, row) in rows.iter_mut().enumerate() {
            row.0 = words.map(|word| word.0[lane]);
        }
    }
}
