//! Lanes that meet the exceptions of the formulas at every addition of the kernel, and have a finite key.
//!
//! The digits depend on u1 and u2 alone, so before each addition the sum is (a · k + b) · G for R = k · G. The addend is (c · k) · G
//! or c · G, and the k for which the two are equal or opposite is a quotient.

use super::{
    crafted::{factors, marked},
    *,
};
use crate::scalar::{Digits, GENERATOR_WINDOW, HALF, N, WINDOW, WINDOWS, invert_all};
use alloy_primitives::uint;
use rand::{Rng as _, SeedableRng as _};

const LAMBDA: U256 = uint!(0x5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72_U256);

/// Factors of G and R in a sum or an addend.
#[derive(Clone, Copy)]
struct Factors {
    g: U256,
    r: U256,
}

impl Factors {
    fn plus(self, other: Self) -> Self {
        Self { g: self.g.add_mod(other.g, N), r: self.r.add_mod(other.r, N) }
    }

    fn times(self, factor: U256) -> Self {
        Self { g: self.g.mul_mod(factor, N), r: self.r.mul_mod(factor, N) }
    }
}

/// A digit modulo n.
fn signed_digit((index, negative): (u16, bool)) -> U256 {
    let digit = U256::from(2 * u64::from(index) + 1);
    if negative { N - digit } else { digit }
}

/// Sum and addend of every addition of the main loop, in the kernel's order.
fn additions(u1: U256, u2: U256) -> Vec<[Factors; 2]> {
    let mut one = [U256::ONE];
    invert_all(&mut one);
    let digits = Digits::new((N - u1) % N, u2, one[0]);
    let of_r = |half, window| {
        let (index, negative) = digits.point(half, window);
        let digit = signed_digit((index.into(), negative));
        Factors { g: U256::ZERO, r: if half == 1 { digit.mul_mod(LAMBDA, N) } else { digit } }
    };
    let of_g = |half: usize, window| {
        let weight = U256::from(2).pow_mod(U256::from(half * HALF), N);
        Factors { g: signed_digit(digits.generator(half, window)).mul_mod(weight, N), r: U256::ZERO }
    };
    let mut sum = of_r(0, WINDOWS - 1).plus(of_r(1, WINDOWS - 1));
    let mut all = Vec::new();
    for window in (0..WINDOWS - 1).rev() {
        sum = sum.times(U256::from(1 << WINDOW));
        let mut addends = vec![of_r(0, window), of_r(1, window)];
        if (window * WINDOW).is_multiple_of(GENERATOR_WINDOW) {
            addends.extend([0, 1].map(|half| of_g(half, window * WINDOW / GENERATOR_WINDOW)));
        }
        for addend in addends {
            all.push([sum, addend]);
            sum = sum.plus(addend);
        }
    }
    assert_eq!((sum.g, sum.r), (u1, u2), "the digits stand for the factors");
    all
}

/// Each k for which an addition meets its own addend (`false`) or the opposite (`true`). Sums without G meet none.
fn exceptions(u1: U256, u2: U256) -> Vec<U256> {
    let mut all = Vec::new();
    for [sum, addend] in additions(u1, u2) {
        for other in [addend, addend.times(N - U256::ONE)] {
            // a k + b = c k + d
            let difference = sum.plus(other.times(N - U256::ONE));
            let Some(inverse) = difference.r.inv_mod(N) else { continue };
            let k = ((N - difference.g) % N).mul_mod(inverse, N);
            if !k.is_zero() {
                all.push(k);
            }
        }
    }
    all
}

/// Every window, table, sign and lane. A key that is lost, or marked in another lane, fails.
#[test]
fn every_addition_in_every_lane() {
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    let random = U256::from_be_bytes(rng.random::<[u8; 32]>()) % N;
    let good: Vec<_> = (0..8).map(|_| signed(&mut rng)).collect();
    for (u1, u2) in [(U256::ONE, U256::ONE), (random, U256::from_be_bytes(rng.random::<[u8; 32]>()) % N)] {
        let all = exceptions(u1, u2);
        // 50 additions of R and 26 of G, but for the two of R before the first of G.
        assert_eq!(all.len(), 2 * (2 * (WINDOWS - 1) + 2 * HALF / GENERATOR_WINDOW - 2));
        let mut finite = 0;
        for k in all {
            let signed = factors(u1, u2, k);
            let key = recover(&signed.0, &signed.1);
            assert_eq!(key.is_err(), u2.mul_mod(k, N).add_mod(u1, N).is_zero(), "{k:x}");
            finite += usize::from(key.is_ok());
            for (set, kernel) in kernels() {
                // One lane of the model is enough: its lanes are one loop.
                let lanes = if set == "Model" { 0..1 } else { 0..kernel.lanes };
                for lane in lanes {
                    let mut batch: Vec<_> = good[..kernel.lanes].iter().map(|(signed, _)| *signed).collect();
                    batch[lane] = signed;
                    let used = ((1_u16 << kernel.lanes) - 1) as u8;
                    let keys = marked(&kernel, &batch);
                    assert_eq!(keys.exceptional & used, 1 << lane, "{set}, lane {lane}, {k:x}");
                    assert_eq!(keys.off_curve & used, 0, "{set}, lane {lane}, {k:x}");
                    for (at, verdict) in recover_with(&kernel, &batch).into_iter().enumerate() {
                        let expected = if at == lane { key } else { Ok(good[at].1) };
                        assert_eq!(verdict, expected, "{set}, {at}, exceptional lane {lane}, {k:x}");
                    }
                }
            }
        }
        assert!(finite > 140, "{finite} finite keys");
    }
}

/// Factors found by other means are among those that are computed here.
#[test]
fn known_exceptions_are_found() {
    let all = exceptions(U256::ONE, U256::ONE);
    for k in [
        uint!(0xffffffffffffffffffffffffffffe026baaedce6af48a03bbfd25e8cd0364140_U256),
        uint!(0xf4ea2a31235d6f5595053d9484f02e57e0183f3a52d00244ab52125c2c80f0b0_U256),
        uint!(0x0b15d5cedca290aa6afac26b7b0fd1a6da969dac5c789df714804c30a3b55091_U256),
        uint!(0xf64dc3b535b5d066f1c590cb750e17b47ee1dc3ba26a2058f6a05bd9a0c97006_U256),
        uint!(0x8679f8ddbc9900d5ae930c213f2b8cd2b6fb1ff8ecc1716c59821a2e7a5311aa_U256),
        uint!(0x52e9e7ce2e6bd5793be081fde27befcadaa74dc59c9603242bc9a120f70fdba7_U256),
        uint!(0x36c6175104eaaaaa8d61e37b002a290c320668c242d96e34bb60cf1031510c93_U256),
        uint!(0xee913524ff046aeebbfd3845d5fd0dc9ebb66113ede036e09d5342ec1d482b10_U256),
    ] {
        assert!(all.contains(&k), "{k:x}");
    }
}
