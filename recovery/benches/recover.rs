//! Recovery in batches of 1 to 1,000, per instruction set, beside libsecp256k1 on the same signatures. Figures of one run
//! belong together: `cargo bench -p phalanx-recovery`.
#![expect(missing_docs, reason = "criterion's macros generate public functions")]

use alloy_primitives::B256;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use phalanx_recovery::{Instructions, Signature, recover, recover_batch_by};
use rand::{RngCore as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use secp256k1::{Message, SECP256K1, SecretKey};
use std::hint::black_box;

fn signed(rng: &mut ChaCha8Rng) -> (B256, Signature) {
    let (mut key, mut digest) = ([0; 32], B256::ZERO);
    rng.fill_bytes(&mut key);
    rng.fill_bytes(&mut digest.0);
    let key = SecretKey::from_slice(&key).expect("nearly all numbers are below the order");
    let (id, bytes) = SECP256K1.sign_ecdsa_recoverable(&Message::from_digest(digest.0), &key).serialize_compact();
    let mut signature = [0; 65];
    signature[..64].copy_from_slice(&bytes);
    signature[64] = i32::from(id) as u8;
    (digest, signature)
}

fn batches(c: &mut Criterion) {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let signatures: Vec<_> = (0..1_000).map(|_| signed(&mut rng)).collect();
    let mut group = c.benchmark_group("recover");
    for set in [Instructions::None, Instructions::Neon, Instructions::Avx2, Instructions::Avx512Ifma] {
        if !set.is_available() {
            continue;
        }
        for len in [1, 2, 4, 8, 16, 32, 64, 128, 1_000] {
            group.throughput(Throughput::Elements(len as u64));
            group.bench_with_input(BenchmarkId::new(format!("{set:?}"), len), &signatures[..len], |b, signatures| {
                b.iter(|| recover_batch_by(set, black_box(signatures)));
            });
        }
    }
    group.bench_function("single", |b| b.iter(|| recover(&signatures[0].0, black_box(&signatures[0].1))));
    group.finish();
}

criterion_group!(benches, batches);
criterion_main!(benches);
