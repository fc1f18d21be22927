//! Random signatures, and damaged ones beside them.

use super::*;
use crate::recover_batch;
use rand::{Rng as _, SeedableRng as _};

#[test]
fn signed_digests_of_every_length_of_a_batch() {
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    let (signed, addresses): (Vec<_>, Vec<_>) = (0..300).map(|_| signed(&mut rng)).unzip();
    for set in [Instructions::None, Instructions::Neon, Instructions::Avx2, Instructions::Avx512Ifma] {
        for len in (0..70).chain([127, 128, 129, 255, 256, 257, 300]) {
            let verdicts = recover_batch_by(set, &signed[..len]);
            assert_eq!(verdicts.len(), len);
            assert!(verdicts.iter().zip(&addresses).all(|(ours, theirs)| *ours == Ok(*theirs)), "{set:?}, {len}");
        }
    }
    assert!(recover_batch(&signed).iter().zip(&addresses).all(|(ours, theirs)| *ours == Ok(*theirs)));
}

/// The long run: `PHALANX_RECOVERY_CASES=100000000`.
#[test]
fn random_numbers_are_judged_as_by_libsecp256k1() {
    let seed = seed();
    let (mut done, mut round) = (0, 0);
    let cases = cases(2_000);
    while done < cases {
        let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(round));
        let batch: Vec<_> = (0..1_000)
            .map(|_| {
                let (mut digest, mut signature) = (B256::ZERO, [0; 65]);
                rng.fill_bytes(&mut digest.0);
                rng.fill_bytes(&mut signature);
                signature[64] %= 2;
                (digest, signature)
            })
            .collect();
        compare(&batch);
        (done, round) = (done + batch.len(), round + 1);
    }
}

/// No lane has an influence on another: bad signatures at every place of two groups leave the rest as they are.
#[test]
fn bad_neighbours_in_every_lane() {
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    let good: Vec<_> = (0..16).map(|_| signed(&mut rng)).collect();
    let zero = signature(U256::ZERO, U256::ZERO, 0);
    for at in 0..16 {
        for bad in [zero, [0xff; 65], [1; 65], [0; 65], super::crafted::infinity()] {
            let mut batch: Vec<_> = good.iter().map(|(signed, _)| *signed).collect();
            batch[at] = (B256::ZERO, bad);
            if bad[64] == 1 {
                // Every second one.
                batch.iter_mut().step_by(2).for_each(|signed| signed.1 = bad);
            }
            compare(&batch);
        }
    }
}

#[test]
fn any_bytes() {
    let mut rng = ChaCha8Rng::seed_from_u64(seed() + 1);
    for _ in 0..20 {
        let batch: Vec<_> = (0..rng.random_range(0..60))
            .map(|_| {
                let ((digest, mut signature), _) = signed(&mut rng);
                match rng.random_range(0..4) {
                    0 => rng.fill_bytes(&mut signature),
                    1 => signature[rng.random_range(0..65)] ^= 1 << rng.random_range(0..8),
                    2 => signature[64] = rng.random(),
                    _ => {}
                }
                (digest, signature)
            })
            .collect();
        compare(&batch);
    }
}
