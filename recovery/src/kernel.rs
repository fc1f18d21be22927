//! From prepared signatures to keys, all lanes in lock step.
//!
//! ```text
//! x of R ─► square root ─► table of R ─► 26 windows: 5 doublings, 2 additions of R, every other time 2 of G
//!                                              └─► Z of all groups ─► one inversion ─► x and y
//! ```

use crate::{
    curve::{Affine, Curve, Point},
    field::{Fe, inverted, square_roots},
    generator::{Generator, MULTIPLES},
    group::{Group, Keys, Windows},
    lanes::MOST,
    scalar::{GENERATOR_WINDOW, WINDOW, WINDOWS},
    table::{Table, load, store},
};

/// Maximum number of groups that share an inversion: 128 signatures on eight lanes.
pub(crate) const GROUPS: usize = 16;

/// Groups that take each step together: one alone leaves the processor waiting for its own results.
const TOGETHER: usize = 2;

/// β, the cube root of one by which x is multiplied where a point is by λ.
const BETA: [u64; 4] = [0xc139_6c28_7195_01ee, 0x9cf0_4975_12f5_8995, 0x6e64_479e_ac34_34e9, 0x7ae9_6a2b_657c_0710];

/// Recovers the keys of at most [`GROUPS`] groups, `keys` having as many.
#[inline(always)]
pub(crate) fn recover<W: Curve>(groups: &[Group], generator: &Generator, keys: &mut [Keys]) {
    let mut points = [Affine { x: Fe::<W>::one(), y: Fe::one() }.point(); GROUPS];
    let (pairs, rest) = groups.as_chunks::<TOGETHER>();
    let paired = pairs.len() * TOGETHER;
    let (pair_keys, rest_keys) = keys[..groups.len()].split_at_mut(paired);
    for (at, (pair, keys)) in pairs.iter().zip(pair_keys.as_chunks_mut().0).enumerate() {
        let sums = summed::<W, TOGETHER>(pair, generator, keys);
        points[TOGETHER * at..][..TOGETHER].copy_from_slice(&sums);
    }
    for (at, (one, keys)) in rest.as_chunks().0.iter().zip(rest_keys.as_chunks_mut().0).enumerate() {
        points[paired + at] = summed::<W, 1>(one, generator, keys)[0];
    }
    finish(&mut points[..groups.len()], keys);
}

/// The keys of some groups as points, none with a Z of zero: exceptional lanes have a Z of one and no meaning.
#[inline(always)]
fn summed<W: Curve, const K: usize>(groups: &[Group; K], generator: &Generator, keys: &mut [Keys; K]) -> [Point<W>; K] {
    let lifted = lifted(groups, keys);
    let mut tables = [Table::new(lifted[0]); K];
    for k in 1..K {
        tables[k] = Table::new(lifted[k]);
    }
    let beta = Fe::splat(BETA);
    let mut sums = [lifted[0].point(); K];
    for k in 0..K {
        let mut second = tables[k].multiple(&groups[k].point[1][WINDOWS - 1]);
        second.x = second.x.mul(beta);
        let first = tables[k].multiple(&groups[k].point[0][WINDOWS - 1]).point();
        sums[k] = W::add(&first, &second, &first.z).0;
    }
    for window in (0..WINDOWS - 1).rev() {
        for _ in 0..WINDOW {
            for sum in &mut sums {
                *sum = W::double(sum);
            }
        }
        for half in 0..2 {
            for k in 0..K {
                let mut point = tables[k].multiple(&groups[k].point[half][window]);
                if half == 1 {
                    point.x = point.x.mul(beta);
                }
                sums[k] = W::add(&sums[k], &point, &sums[k].z).0;
            }
        }
        if (window * WINDOW).is_multiple_of(GENERATOR_WINDOW) {
            for half in 0..2 {
                for k in 0..K {
                    let digit = &groups[k].generator[half][window * WINDOW / GENERATOR_WINDOW];
                    let point = multiple(generator, half, digit);
                    // The table's curve is isomorphic to the generator's by the table's Z.
                    let z = sums[k].z.mul(tables[k].z);
                    sums[k] = W::add(&sums[k], &point, &z).0;
                }
            }
        }
    }
    for k in 0..K {
        let z = sums[k].z.mul(tables[k].z);
        keys[k].exceptional = z.zeros();
        sums[k].z = Fe::select(keys[k].exceptional, Fe::one(), z);
    }
    sums
}

/// The points R of the groups. Lanes without a point are marked.
#[inline(always)]
fn lifted<W: Curve, const K: usize>(groups: &[Group; K], keys: &mut [Keys; K]) -> [Affine<W>; K] {
    let mut points = [Affine { x: Fe::one(), y: Fe::one() }; K];
    let mut squares = [Fe::one(); K];
    for k in 0..K {
        points[k] = load(&groups[k].x.each_ref());
        let x = points[k].x;
        squares[k] = x.square().times(x).plus_sum::<1, 2>(Fe::splat([7, 0, 0, 0]).sum()).reduced();
    }
    let roots = square_roots(squares);
    for k in 0..K {
        let minus = squares[k].sum().negated::<2>();
        let difference = roots[k].squared().plus_sum::<2, 2>(minus).reduced();
        keys[k].off_curve = !difference.zeros();
        let y = roots[k].canonical();
        points[k].y = y.negated_where(y.odd() ^ groups[k].odd);
    }
    points
}

/// The multiple of the generator of each lane.
#[inline(always)]
fn multiple<W: Curve>(generator: &Generator, half: usize, digit: &Windows<u16>) -> Affine<W> {
    let table = generator.half(half);
    let mut rows = [&table[0]; MOST];
    for (row, index) in rows.iter_mut().zip(digit.index).take(W::LANES) {
        *row = &table[usize::from(index) % MULTIPLES];
    }
    load(&rows).negated_where(digit.negative)
}

/// Writes x and y of all points, with one inversion for all groups.
#[inline(always)]
fn finish<W: Curve>(points: &mut [Point<W>], keys: &mut [Keys]) {
    let Some(first) = points.first() else { return };
    let mut products = [first.z; GROUPS];
    for at in 1..points.len() {
        products[at] = products[at - 1].mul(points[at].z);
    }
    // Inverse of the product of all Z up to here.
    let [mut rest] = inverted([products[points.len() - 1]]);
    for at in (0..points.len()).rev() {
        let Point { x, y, z } = points[at];
        let inverse = if at == 0 { rest } else { rest.mul(products[at - 1]) };
        rest = rest.mul(z);
        let square = inverse.square();
        store(x.mul(square), y.mul(square.mul(inverse)), &mut keys[at].rows);
    }
}
