//! Crafted signatures: edges of every number, factors at the edges of their halves, and sums that meet the exceptions of the
//! formulas.

use super::*;
use crate::{
    Error,
    generator::{Generator, coordinates},
    group::{Group, Keys},
    instructions::Kernel,
    scalar::{A1, B1, Digits, N, POINT_OFFSET, invert_all},
};
use alloy_primitives::{U512, uint};
use rand::{Rng as _, SeedableRng as _, seq::IndexedRandom as _};

const P: U256 = uint!(0xfffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f_U256);
const LAMBDA: U256 = uint!(0x5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72_U256);
const X: U256 = uint!(0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798_U256);

/// Numbers near the edges of what is compared and split.
fn edges() -> Vec<U256> {
    let one = U256::ONE;
    let mut edges = vec![U256::ZERO];
    for middle in
        [N, P, P - N, N >> 1, P >> 1, LAMBDA, N - LAMBDA, X, U256::MAX - one, one << 128, one << 129, one << 255]
    {
        edges.extend([middle - one, middle, middle + one]);
    }
    edges.extend((1..8).map(U256::from));
    edges
}

/// A signature and digest whose factors are `u1` and `u2`, for R = `k` · G.
pub(super) fn factors(u1: U256, u2: U256, k: U256) -> (B256, Signature) {
    let key = SecretKey::from_slice(&k.to_be_bytes::<32>()).expect("a factor below the order");
    let row = coordinates(&key.public_key(SECP256K1));
    let x = U256::from_limbs_slice(&row.0[..4]);
    let r = x % N;
    let id = (row.0[4] & 1) as u8 | if x >= N { 2 } else { 0 };
    let s = u2.mul_mod(r, N);
    let z = if u1.is_zero() { U256::ZERO } else { N - u1.mul_mod(r, N) };
    (z.to_be_bytes().into(), signature(r, s, id))
}

/// A signature whose key is the point at infinity: u1 = -u · k and u2 = u for R = `k` · G.
pub(super) fn infinity_of(u: U256, k: U256) -> (B256, Signature) {
    factors(N - u.mul_mod(k, N), u, k)
}

/// A signature of the digest zero whose x is of no point.
pub(super) fn infinity() -> Signature {
    signature(U256::from(5), U256::ONE, 0)
}

#[test]
fn edges_of_every_number() {
    let seed = seed();
    let edges = edges();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut number = move || match rng.random_range(0..8) {
        0 => U256::from_be_bytes(rng.random::<[u8; 32]>()),
        1 => U256::ONE << rng.random_range(0..256),
        _ => *edges.choose(&mut rng).expect("edges"),
    };
    let mut rng = ChaCha8Rng::seed_from_u64(seed + 1);
    let mut done = 0;
    let cases = cases(3_000);
    while done < cases {
        let batch: Vec<_> = (0..rng.random_range(2..200))
            .map(|_| {
                let id = *[0, 1, 0, 1, 2, 3, 4, 27, 255].choose(&mut rng).expect("ids");
                (number().to_be_bytes().into(), signature(number(), number(), id))
            })
            .collect();
        compare(&batch);
        done += batch.len();
    }
}

/// A factor of R whose split rounds at an edge: (i + 1/2) · n / `a`, and the integers beside it, for a short vector's `a`.
fn rounding(rng: &mut ChaCha8Rng) -> U256 {
    let a = if rng.random() { A1 } else { B1 };
    let i = U256::from_be_bytes(rng.random::<[u8; 32]>()) % a;
    let odd: U512 = U512::from(i) * U512::from(2) + U512::from(1);
    let quotient = odd * U512::from(N) / (U512::from(a) * U512::from(2));
    let near = U256::from_limbs_slice(&quotient.as_limbs()[..4]);
    let near = near.add_mod(U256::from(rng.random_range(0..3)), N).add_mod(N - U256::ONE, N);
    // What is split is half the factor plus the offset.
    near.add_mod(N - POINT_OFFSET, N).mul_mod(U256::from(2), N)
}

/// The factor of G whose digits are all alike, the most negative: 1 - 2^260.
fn alike() -> U256 {
    U256::ONE.add_mod(N - U256::from(2).pow_mod(U256::from(260), N), N)
}

/// Both factors at edges, among them those whose halves are at edges: small multiples of λ, and all digits alike.
fn extreme(rng: &mut ChaCha8Rng) -> U256 {
    let small = |rng: &mut ChaCha8Rng| U256::from(rng.random_range(0..40));
    let half = |rng: &mut ChaCha8Rng| match rng.random_range(0..4) {
        0 => U256::from(rng.random_range(0..40)),
        1 => (U256::ONE << rng.random_range(100..129)) - small(rng),
        2 => N - U256::from(rng.random_range(1..40)),
        _ => N - (U256::ONE << rng.random_range(100..129)),
    };
    let (a, b) = (half(rng) % N, half(rng) % N);
    a.add_mod(b.mul_mod(LAMBDA, N), N)
}

/// R is a small multiple of G, so that partial sums meet points of the tables.
#[test]
fn factors_at_the_edges_of_their_halves() {
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    let mut done = 0;
    let cases = cases(3_000);
    while done < cases {
        let batch: Vec<_> = (0..128)
            .map(|_| {
                let k = match rng.random_range(0..4) {
                    0 => U256::from(rng.random_range(1..64)),
                    1 => N - U256::from(rng.random_range(1..64)),
                    2 => LAMBDA.mul_mod(U256::from(rng.random_range(1..64)), N),
                    _ => U256::from_be_bytes(rng.random::<[u8; 32]>()) % N,
                };
                match rng.random_range(0..7) {
                    5 => factors(extreme(&mut rng), rounding(&mut rng), k),
                    6 => factors(alike(), rounding(&mut rng), k),
                    0 => infinity_of(extreme(&mut rng), k),
                    1 => factors(U256::ZERO, extreme(&mut rng), k),
                    _ => factors(extreme(&mut rng), extreme(&mut rng), k),
                }
            })
            .collect();
        compare(&batch);
        done += batch.len();
    }
}

/// Verdict of the kernel on one group, with r as x of R.
pub(super) fn marked(kernel: &Kernel, batch: &[(B256, Signature)]) -> Keys {
    let mut group = Group::new();
    for (lane, (digest, signature)) in batch.iter().enumerate() {
        let [r, s] = [0, 32].map(|at| U256::from_be_slice(&signature[at..at + 32]));
        let mut inverse = [r];
        invert_all(&mut inverse);
        let digits = Digits::new(U256::from_be_bytes(digest.0) % N, s, inverse[0]);
        group.put(lane, r.into_limbs(), signature[64] == 1, &digits);
    }
    let mut keys = [Keys::new()];
    kernel.recover(&[group], Generator::get(), &mut keys);
    keys[0]
}

/// The kernel itself marks exceptional lanes and those off the curve, and no other.
#[test]
fn exceptions_are_marked_in_their_lanes_alone() {
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    for (set, kernel) in kernels() {
        for lane in 0..kernel.lanes {
            let mut batch: Vec<_> = (0..kernel.lanes).map(|_| signed(&mut rng).0).collect();
            batch[lane] = infinity_of(U256::from(77), U256::from(3));
            let other = (lane + 1) % kernel.lanes;
            batch[other] = (B256::ZERO, infinity());
            let keys = marked(&kernel, &batch);
            let used = ((1_u16 << kernel.lanes) - 1) as u8;
            assert_eq!(keys.exceptional & used & !(1 << other), 1 << lane, "{set}");
            assert_eq!(keys.off_curve & used, 1 << other, "{set}");
            let (digest, signature) = batch[lane];
            assert_eq!(recover_with(&kernel, &batch)[lane], Err(Error::NoKey));
            assert_eq!(recover(&digest, &signature), Err(Error::NoKey));
        }
    }
}
