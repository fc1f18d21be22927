//! Arithmetic modulo the order of the groups: Shamir's polynomials and Lagrange's coefficients at zero.

use alloy_primitives::{U256, U512, uint};

/// Order of G1 and G2.
const ORDER: U256 = uint!(0x73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001_U256);

/// A number below the order from 64 uniform bytes, without a noticeable bias.
pub(super) fn reduce(bytes: &[u8; 64]) -> U256 {
    let rest = U512::from_be_bytes(*bytes) % U512::from(ORDER);
    U256::from(rest)
}

/// Sum of two numbers.
pub(super) fn add(a: U256, b: U256) -> U256 {
    a.add_mod(b, ORDER)
}

/// The first `count` powers of a number, from the zeroth on.
pub(super) fn powers(of: u64, count: usize) -> Vec<U256> {
    let next = |power: &U256| Some(power.mul_mod(U256::from(of), ORDER));
    core::iter::successors(Some(U256::ONE), next).take(count).collect()
}

/// Value of a polynomial, lowest coefficient first.
pub(super) fn evaluate(coefficients: &[U256], at: u64) -> U256 {
    let at = U256::from(at);
    coefficients.iter().rev().fold(U256::ZERO, |sum, next| sum.mul_mod(at, ORDER).add_mod(*next, ORDER))
}

/// Coefficients that interpolate at zero from these distinct places, none of them zero. O(places²), in products of small numbers.
pub(super) fn lagrange(places: &[u64]) -> Vec<U256> {
    let whole = product(places.iter().copied());
    let coefficient = |place: &u64| {
        let others = || places.iter().filter(move |other| *other != place);
        let below = product(others().map(|other| other.abs_diff(*place)).chain([*place]));
        // Each difference x_j - x_i below zero turns the sign.
        let negative = others().filter(|other| *other < place).count() % 2 == 1;
        let inverse = below.inv_mod(ORDER).unwrap_or(U256::ZERO);
        let value = whole.mul_mod(inverse, ORDER);
        if negative { ORDER - value } else { value }
    };
    places.iter().map(coefficient).collect()
}

/// Product modulo the order.
fn product(factors: impl Iterator<Item = u64>) -> U256 {
    let (mut all, mut part) = (U256::ONE, 1_u128);
    for factor in factors {
        part = part.checked_mul(factor.into()).unwrap_or_else(|| {
            all = all.mul_mod(U256::from(part), ORDER);
            factor.into()
        });
    }
    all.mul_mod(U256::from(part), ORDER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpolation_at_zero_finds_the_constant() {
        let coefficients: Vec<U256> = (0..201_u8).map(|at| reduce(&[at ^ 0xa5; 64])).collect();
        for places in [(1..=201).collect::<Vec<u64>>(), (9..=209).rev().collect()] {
            let values = places.iter().map(|place| evaluate(&coefficients, *place));
            let sum = lagrange(&places).into_iter().zip(values);
            let sum = sum.fold(U256::ZERO, |sum, (c, v)| sum.add_mod(c.mul_mod(v, ORDER), ORDER));
            assert_eq!(sum, coefficients[0]);
        }
    }

    #[test]
    fn reduction_stays_below_the_order() {
        assert!(reduce(&[0xff; 64]) < ORDER);
        assert_eq!(reduce(&[0; 64]), U256::ZERO);
    }
}
