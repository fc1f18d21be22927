//! Each operation against integers of 512 bits, on limbs at their stated maxima, for every instruction set.

use super::*;
use crate::lanes::{MOST, Row, model::Model};
use alloy_primitives::{U256, U512, uint};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const MODULUS: U512 = uint!(0xfffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f_U512);

/// Limbs of one element per lane.
type Lanes = [[u64; LIMBS]; MOST];

// Arithmetic of 512 bits stays in functions of its own: `compare` is inlined for every instruction set.
#[inline(never)]
fn value(limbs: &[u64]) -> U512 {
    limbs.iter().rev().fold(U512::ZERO, |sum, limb| (sum << LIMB_BITS as usize) + U512::from(*limb))
}

#[inline(never)]
fn remainder(number: U512) -> U512 {
    number % MODULUS
}

#[inline(never)]
fn times(a: U512, b: U512) -> U512 {
    a * b
}

/// The result of an operation on `a` and `b` in one lane has to be `theirs`, modulo p.
#[inline(never)]
fn same(what: &str, ours: &[u64], a: &[u64], b: &[u64], theirs: fn(U512, U512) -> U512) {
    // Products of larger numbers leave 512 bits.
    let expected = theirs(remainder(value(a)), remainder(value(b)));
    assert_eq!(remainder(value(ours)), remainder(expected), "{what} of {a:x?} and {b:x?}");
}

#[inline(always)]
fn enter<W: Word>(lanes: &Lanes) -> [W; LIMBS] {
    let mut rows = [Row([0; 8]); MOST];
    for (row, limbs) in rows.iter_mut().zip(lanes) {
        row.0[..LIMBS].copy_from_slice(limbs);
    }
    let words = W::gather(&rows.each_ref());
    [words[0], words[1], words[2], words[3], words[4]]
}

/// Limbs of the lanes, which must be tight.
#[inline(always)]
fn leave<W: Word>(fe: Fe<W>) -> Lanes {
    let [a, b, c, d, e] = fe.0;
    let zero = W::splat(0);
    let mut rows = [Row([0; 8]); MOST];
    W::scatter([a, b, c, d, e, zero, zero, zero], &mut rows);
    let mut lanes = [[0; LIMBS]; MOST];
    for (limbs, row) in lanes.iter_mut().zip(&rows) {
        limbs.copy_from_slice(&row.0[..LIMBS]);
    }
    check_tight(&lanes);
    lanes
}

#[inline(never)]
fn check_tight(lanes: &Lanes) {
    for limbs in lanes {
        assert!(limbs.iter().zip(TIGHT).all(|(limb, most)| *limb <= most), "not tight: {limbs:x?}");
    }
}

/// Compares every operation on two elements per lane, and on sums as large as `scale` allows.
#[inline(always)]
fn compare<W: Word>(a: &Lanes, b: &Lanes) {
    let (x, y) = (Fe(enter::<W>(a)), Fe(enter::<W>(b)));
    macro_rules! check {
        ($what:literal, $ours:expr, $theirs:expr) => {
            let ours = leave($ours);
            (0..W::LANES).for_each(|lane| same($what, &ours[lane], &a[lane], &b[lane], $theirs));
        };
    }
    check!("product", x.mul(y), times);
    check!("square", x.square(), |p, _q| times(p, p));
    check!("negation", x.sum().negated::<2>().carried(), |p, _q| MODULUS - p);
    check!("largest sum", x.sum().shifted::<4, 16>().plus::<16, 32>(y.sum().shifted::<4, 16>()).carried(), |p, q| {
        times(p + q, U512::from(16))
    });
    check!("largest negation", x.sum().shifted::<4, 16>().negated::<32>().carried(), |p, _q| {
        times(U512::from(64), MODULUS) - times(p, U512::from(16))
    });
    // Seven products and a sum of sixteen, reduced together.
    let product = x.times(y);
    let four = product.doubled::<2>().doubled::<4>();
    let seven = four.plus::<2, 6>(product.doubled()).plus::<1, 7>(x.squared());
    check!("largest products", seven.plus_sum::<16, 8>(y.sum().shifted::<4, 16>()).reduced(), |p, q| {
        times(remainder(times(p, q)), U512::from(6)) + remainder(times(p, p)) + times(q, U512::from(16))
    });
    check!("canonical", x.canonical(), |p, _q| p);
    let smallest = leave(x.canonical());
    let (zeros, odd) = (x.zeros(), x.canonical().odd());
    let again = leave(Fe::from_words(x.canonical().words()));
    for lane in 0..W::LANES {
        let smallest = value(&smallest[lane]);
        assert!(smallest < MODULUS);
        assert_eq!(smallest, value(&again[lane]));
        assert_eq!((zeros >> lane & 1 == 1, odd >> lane & 1 == 1), (smallest.is_zero(), smallest.bit(0)));
    }
    let ([inverse], [root]) = (inverted([x]), square_roots([x.square()]));
    check!("inverse", inverse.mul(x), |p, _q| if p.is_zero() { U512::ZERO } else { U512::ONE });
    check!("root", root.square(), |p, _q| times(p, p));
    let negated = leave(x.negated_where(0b1010_0110));
    for lane in 0..W::LANES {
        let (before, after) = (value(&a[lane]), value(&negated[lane]));
        let sum = if 0b1010_0110 >> lane & 1 == 1 { before + after } else { MODULUS + after - remainder(before) };
        assert!(remainder(sum).is_zero());
    }
}

/// Limbs at the edges: zero, one, their maxima, p and its neighbours, 2^256 and its neighbours.
fn edge(rng: &mut ChaCha8Rng) -> [u64; LIMBS] {
    let near = |rng: &mut ChaCha8Rng, words: U256| {
        let number = words.wrapping_add(U256::from(rng.random_range(0..5))).wrapping_sub(U256::from(2));
        let words = number.into_limbs();
        let bits = |at: usize| {
            let double = U256::from_limbs(words) >> (52 * at);
            double.as_limbs()[0] & if at == 4 { TOP } else { LIMB }
        };
        [bits(0), bits(1), bits(2), bits(3), bits(4)]
    };
    match rng.random_range(0..8) {
        0 => TIGHT,
        1 => near(rng, U256::from_limbs_slice(&MODULUS.as_limbs()[..4])),
        2 => near(rng, U256::ZERO),
        3 => {
            let bit = rng.random_range(0..256);
            near(rng, U256::ONE << bit)
        }
        // A low part near ±2^51 needs one factor near 2^51 and the other small and odd: AVX2 rounds to the nearest.
        4 => TIGHT.map(|_| rng.random_range(0..8) * 2 + 1),
        5 => {
            let near = (1 << (LIMB_BITS - 1)) + rng.random_range(0..16);
            TIGHT.map(|most| if most == LIMB { near - 8 } else { rng.random_range(0..=most) })
        }
        6 => TIGHT.map(|most| if rng.random_bool(0.5) { most } else { 0 }),
        _ => TIGHT.map(|most| rng.random_range(0..=most)),
    }
}

fn inputs(seed: u64) -> impl Iterator<Item = (Lanes, Lanes)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..cases()).map(move |case| {
        let mut lanes = || core::array::from_fn(|_| if case == 0 { TIGHT } else { edge(&mut rng) });
        (lanes(), lanes())
    })
}

/// Number of cases per instruction set.
fn cases() -> usize {
    std::env::var("PHALANX_RECOVERY_CASES").map_or(500, |cases| cases.parse().expect("a number"))
}

#[test]
fn limbs_at_their_maxima_in_plain_integers() {
    // The model panics where a limb leaves 63 bits.
    inputs(1).take(100).for_each(|(a, b)| compare::<Model>(&a, &b));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn limbs_at_their_maxima_in_vectors() {
    use crate::lanes::{avx2, ifma};

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn eight(a: &Lanes, b: &Lanes) {
        compare::<ifma::Eight>(a, b);
    }

    #[target_feature(enable = "avx2,fma")]
    fn four(a: &Lanes, b: &Lanes) {
        compare::<avx2::Four>(a, b);
    }

    for (a, b) in inputs(2) {
        #[expect(unsafe_code, reason = "the features were detected")]
        // SAFETY: the processor has the features.
        unsafe {
            if ifma::available() {
                eight(&a, &b);
            }
            if avx2::available() {
                four(&a, &b);
            }
        }
    }
}
