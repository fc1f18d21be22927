//! A vector register as the arithmetic sees it: one 64-bit word of each lane.
//!
//! [`Word`] is implemented per instruction set, and once in plain integers ([`model`]), which tests compare with. Code that is
//! generic over it is `#[inline(always)]`, because it becomes vector code only inside of the entry of an instruction set,
//! which has its `#[target_feature]`. No closure takes a vector: a closure is a function of its own, without the features.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod doubles;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ifma;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
#[cfg(test)]
pub(crate) mod model;

/// Maximum number of lanes of a vector.
pub(crate) const MOST: usize = 8;

/// Low bits of a word that a multiplication reads.
pub(crate) const LIMB_BITS: u32 = 52;

/// A set of lanes: bit i is lane i.
pub(crate) type Mask = u8;

/// True if the lane is in the set.
pub(crate) const fn is_set(mask: Mask, lane: usize) -> bool {
    mask >> lane & 1 == 1
}

/// Memory of one lane: two field elements of four words each, little-endian, in one line of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Row(pub(crate) [u64; 8]);

/// A 64-bit word of each lane. Sums and differences wrap.
pub(crate) trait Word: Copy {
    /// Number of lanes, at most [`MOST`].
    const LANES: usize;

    /// Lower bound of the low part of a product, as a multiple of -2^51. Zero where low parts are not negative.
    const NEGATIVE: u64;

    fn splat(value: u64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn left<const BITS: u32>(self) -> Self;
    fn right<const BITS: u32>(self) -> Self;

    /// Shift to the right that keeps the sign.
    fn signed_right<const BITS: u32>(self) -> Self;

    /// Adds the product of the low 52 bits of `self` and `other` to `low` + 2^52 · `high`. The part that `low` gets is
    /// within ±2^52, the part that `high` gets within 0 and 2^52.
    fn multiply_add(self, other: Self, low: Self, high: Self) -> (Self, Self);

    /// `yes` in the lanes of `mask`, `no` in the others.
    fn select(mask: Mask, yes: Self, no: Self) -> Self;

    /// The lanes in which the word is zero.
    fn zeros(self) -> Mask;

    /// Reads a row per lane: word i of the result holds word i of every row.
    fn gather(rows: &[&Row; MOST]) -> [Self; 8];

    /// Writes a row per lane: the inverse of [`Self::gather`]. Rows beyond the lanes keep their contents.
    fn scatter(words: [Self; 8], rows: &mut [Row; MOST]);
}
