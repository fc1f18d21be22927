//! Products of 52-bit integers by fused multiplications of doubles, which are exact to the last bit: two of them give both halves
//! of a product of 104 bits.
//!
//! With A = 2^104 and B = 1.5 · 2^52, `a * b + A` rounds to A + h · 2^52, where h is the quotient of the product by 2^52, rounded to
//! the nearest. Then `a * b + (A - that)` is the remainder, within ±2^51. Plus A and B, both are read off the low bits. (N. Emmart,
//! F. Zheng, C. Weems: Faster Modular Exponentiation Using Double Precision Floating Point Arithmetic on the GPU, ARITH 2018,
//! which rounds toward zero.)

use super::LIMB_BITS;

/// 2^52, whose sum with an integer below 2^52 has the integer in its low bits.
pub(super) const INTEGER: f64 = (1_u64 << LIMB_BITS) as f64;
/// A = 2^104.
pub(super) const HIGH: f64 = INTEGER * INTEGER;
/// B = 1.5 · 2^52.
pub(super) const LOW: f64 = 1.5 * INTEGER;
