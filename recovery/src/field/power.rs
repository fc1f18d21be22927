//! Square roots and inverses by fixed powers (Fermat): every lane takes the same steps.
//!
//! Several vectors at a time, because the steps of a power wait for each other: while the processor waits for one vector, it
//! computes another.

use super::Fe;
use crate::lanes::Word;

/// Square roots of elements that have any: powers with exponent (p + 1) / 4, as p is 3 modulo 4. For other elements the
/// square of the result is another element.
#[inline(always)]
pub(crate) fn square_roots<W: Word, const K: usize>(a: [Fe<W>; K]) -> [Fe<W>; K] {
    let Prefix { twos, twenty_twos, long } = prefix(a);
    let power = multiplied(squared(long, 23), twenty_twos);
    squared(multiplied(squared(power, 6), twos), 2)
}

/// Inverses: powers with exponent p - 2. The inverse of zero is zero.
#[inline(always)]
pub(crate) fn inverted<W: Word, const K: usize>(a: [Fe<W>; K]) -> [Fe<W>; K] {
    let Prefix { twos, twenty_twos, long } = prefix(a);
    let power = multiplied(squared(long, 23), twenty_twos);
    let power = multiplied(squared(power, 5), a);
    let power = multiplied(squared(power, 3), twos);
    multiplied(squared(power, 2), a)
}

/// Powers whose exponents are 2, 22 and 223 one bits: both exponents begin with 223 of them.
struct Prefix<W, const K: usize> {
    twos: [Fe<W>; K],
    twenty_twos: [Fe<W>; K],
    long: [Fe<W>; K],
}

#[inline(always)]
fn prefix<W: Word, const K: usize>(a: [Fe<W>; K]) -> Prefix<W, K> {
    let twos = multiplied(squared(a, 1), a);
    let threes = multiplied(squared(twos, 1), a);
    let sixes = multiplied(squared(threes, 3), threes);
    let nines = multiplied(squared(sixes, 3), threes);
    let elevens = multiplied(squared(nines, 2), twos);
    let twenty_twos = multiplied(squared(elevens, 11), elevens);
    let ones_44 = multiplied(squared(twenty_twos, 22), twenty_twos);
    let ones_88 = multiplied(squared(ones_44, 44), ones_44);
    let ones_176 = multiplied(squared(ones_88, 88), ones_88);
    let ones_220 = multiplied(squared(ones_176, 44), ones_44);
    Prefix { twos, twenty_twos, long: multiplied(squared(ones_220, 3), threes) }
}

#[inline(always)]
fn squared<W: Word, const K: usize>(mut a: [Fe<W>; K], times: usize) -> [Fe<W>; K] {
    for _ in 0..times {
        for a in &mut a {
            *a = a.square();
        }
    }
    a
}

#[inline(always)]
fn multiplied<W: Word, const K: usize>(mut a: [Fe<W>; K], b: [Fe<W>; K]) -> [Fe<W>; K] {
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.mul(b);
    }
    a
}
