//! Factors modulo n, the order of the curve: from signatures to digits.
//!
//! The key is u1 · G + u2 · R with u1 = -z / r and u2 = s / r. Every factor is written in signed bits, 2 b - 1 for each bit b
//! of v: a number of l bits then stands for 2 v + 1 - 2^l, and a window of w bits for an odd digit between -2^w and 2^w. No digit
//! is zero, so every lane adds at every window, and a table holds odd multiples only. As n is odd, each factor modulo n is of
//! this form. (libsecp256k1 does the same in `ecmult_const_impl.h`, for constant time.)
//!
//! The factor of R is split into two of half its length, k = k1 + k2 · λ, where λ · (x, y) = (β x, y): R. Gallant, R. Lambert,
//! S. Vanstone, Faster Point Multiplication on Elliptic Curves with Efficient Endomorphisms, CRYPTO 2001.

use alloy_primitives::{U256, uint};

/// Bits of a window of R's factors.
pub(crate) const WINDOW: usize = 5;
/// Bits of half a factor of R.
pub(crate) const HALF: usize = 130;
/// Number of windows of half a factor of R.
pub(crate) const WINDOWS: usize = HALF / WINDOW;

/// Bits of a window of the generator's factor.
pub(crate) const GENERATOR_WINDOW: usize = 10;
/// Number of windows of half a factor of the generator.
pub(crate) const GENERATOR_WINDOWS: usize = HALF / GENERATOR_WINDOW;

const _: () = assert!(WINDOWS * WINDOW == HALF && GENERATOR_WINDOWS * GENERATOR_WINDOW == HALF);
// Both tables are added to one sum, which is doubled window by window.
const _: () = assert!(GENERATOR_WINDOW.is_multiple_of(WINDOW));

/// Order of the curve.
pub(crate) const N: U256 = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);

/// -1 / n modulo 2^64.
const N_INVERSE: u64 = 0x4b0d_ff66_5588_b13f;

/// 2^512 modulo n.
const R2: U256 = uint!(0x9d671cd581c69bc5e697f5e45bcd07c6741496c20e7cf878896cf21467d7d140_U256);

/// 1 / 2 modulo n.
const ONE_HALF: U256 = uint!(0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a1_U256);

/// (2^129 - 1) (1 + λ) / 2 modulo n: what the signed bits of both halves add.
pub(crate) const POINT_OFFSET: U256 = uint!(0xd274453ee58981a7615eeb5fbe08c6b509a4e2976b0165103aca9034d766ed0d_U256);

/// (2^260 - 1) / 2 modulo n.
const GENERATOR_OFFSET: U256 = uint!(0x8000000000000000000000000000000987e0873ddd5f4e3fe1563adfe6691698_U256);

/// Short vectors of the lattice of (i, j) with i + j · λ = 0 modulo n: (A1, -B1) and (A2, A1).
pub(crate) const A1: U256 = uint!(0x3086d221a7d46bcde86c90e49284eb15_U256);
pub(crate) const B1: U256 = uint!(0xe4437ed6010e88286f547fa90abfe4c3_U256);
const A2: U256 = uint!(0x114ca50f7a8e2f3f657c1108d9d44cfd8_U256);

/// 2^384 · A1 / n and 2^384 · B1 / n, rounded.
const G1: U256 = uint!(0x3086d221a7d46bcde86c90e49284eb153daa8a1471e8ca7fe893209a45dbb031_U256);
const G2: U256 = uint!(0xe4437ed6010e88286f547fa90abfe4c4221208ac9df506c61571b4ae8ac47f71_U256);

/// Digits of a signature's factors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digits {
    point: [U256; 2],
    generator: [U256; 2],
}

impl Digits {
    /// The digits of -z / r and s / r, for `inverse` = 2^256 / r. z and s must be below n.
    pub(crate) fn new(z: U256, s: U256, inverse: U256) -> Self {
        let u1 = negated(product(z, inverse));
        let u2 = product(s, inverse);
        let v = sum(halved(u1), GENERATOR_OFFSET);
        let low = (U256::ONE << HALF) - U256::ONE;
        Self { point: split(sum(halved(u2), POINT_OFFSET)), generator: [v & low, v >> HALF] }
    }

    /// Index and sign of a digit of R's factor.
    #[inline]
    pub(crate) fn point(&self, half: usize, window: usize) -> (u8, bool) {
        let (index, negative) = digit(&self.point[half], window * WINDOW, WINDOW);
        (index as u8, negative)
    }

    /// Index and sign of a digit of the generator's factor.
    #[inline]
    pub(crate) fn generator(&self, half: usize, window: usize) -> (u16, bool) {
        let (index, negative) = digit(&self.generator[half], window * GENERATOR_WINDOW, GENERATOR_WINDOW);
        (index as u16, negative)
    }
}

/// The window of `bits` bits at bit `at` as ±(2 · index + 1).
#[inline]
fn digit(v: &U256, at: usize, bits: usize) -> (u64, bool) {
    let words = v.as_limbs();
    let (word, shift) = (at / 64, at % 64);
    let double = u128::from(words[word]) | u128::from(words.get(word + 1).copied().unwrap_or_default()) << 64;
    let (window, top) = ((double >> shift) as u64 & ((1 << bits) - 1), 1 << (bits - 1));
    if window & top == 0 { (top - 1 - window, true) } else { (window - top, false) }
}

/// v1 and v2 below 2^129 with (v1 - 2^128) + (v2 - 2^128) λ = k modulo n.
fn split(k: U256) -> [U256; 2] {
    let (c1, c2) = (rounded(k, G1), rounded(k, G2));
    // Modulo 2^256, as the results are small.
    let k1 = k.wrapping_sub(c1.wrapping_mul(A1)).wrapping_sub(c2.wrapping_mul(A2));
    let k2 = c1.wrapping_mul(B1).wrapping_sub(c2.wrapping_mul(A1));
    [k1, k2].map(|k| k.wrapping_add(U256::ONE << 128))
}

/// k · g / 2^384, rounded.
fn rounded(k: U256, g: U256) -> U256 {
    let words: [u64; 8] = k.widening_mul::<256, 4, 512, 8>(g).into_limbs();
    let round = words[5] >> 63;
    U256::from_limbs([words[6], words[7], 0, 0]).wrapping_add(U256::from(round))
}

/// a · b / 2^256 modulo n (Montgomery's product).
#[inline]
fn product(a: U256, b: U256) -> U256 {
    a.mul_redc(b, N, N_INVERSE)
}

#[inline]
fn sum(a: U256, b: U256) -> U256 {
    let (sum, over) = a.overflowing_add(b);
    if over || sum >= N { sum.wrapping_sub(N) } else { sum }
}

#[inline]
fn negated(a: U256) -> U256 {
    if a.is_zero() { a } else { N - a }
}

/// a / 2 modulo n.
#[inline]
fn halved(a: U256) -> U256 {
    let half = a >> 1;
    if a.bit(0) { half + ONE_HALF } else { half }
}

/// Replaces each number r by 2^256 / r modulo n, with one inversion for all (P. Montgomery's trick). None may be zero modulo n,
/// and all must be below n.
pub(crate) fn invert_all(numbers: &mut [U256]) {
    let Some(first) = numbers.first() else { return };
    let mut products = Vec::with_capacity(numbers.len());
    products.push(*first);
    for number in &numbers[1..] {
        products.push(product(products[products.len() - 1], *number));
    }
    let all = products[products.len() - 1];
    let inverse = all.inv_mod(N).expect("a prime order and no zero");
    // `rest` is 2^256 divided by the product of the numbers up to here.
    let mut rest = product(inverse, R2);
    for at in (1..numbers.len()).rev() {
        let number = numbers[at];
        numbers[at] = product(rest, products[at - 1]);
        rest = product(rest, number);
    }
    numbers[0] = rest;
}
