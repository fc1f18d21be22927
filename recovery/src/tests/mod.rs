//! Every path against libsecp256k1: random, crafted and published signatures, in every lane.

#[cfg(feature = "alloy")]
mod alloy;
mod crafted;
mod equal;
mod exceptional;
mod published;

use crate::{Instructions, Signature, batch::recover_with, instructions::Kernel, recover, recover_batch_by};
use alloy_primitives::{Address, B256, U256};
use rand::RngCore as _;
use rand_chacha::ChaCha8Rng;
use secp256k1::{Message, SECP256K1, SecretKey};

/// Number of cases: `default`, or the environment's.
fn cases(default: usize) -> usize {
    std::env::var("PHALANX_RECOVERY_CASES").map_or(default, |cases| cases.parse().expect("a number"))
}

/// Seed of this run, printed where a test fails.
fn seed() -> u64 {
    let seed = std::env::var("PHALANX_RECOVERY_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("PHALANX_RECOVERY_SEED={seed}");
    seed
}

/// Every kernel of this processor, and the one in plain integers.
///
/// `PHALANX_RECOVERY_SETS=Avx2,Avx512Ifma,Neon,Model` compares these alone; the test fails where the processor lacks one, instead of
/// testing less.
fn kernels() -> Vec<(String, Kernel)> {
    let sets = [Instructions::Avx512Ifma, Instructions::Avx2, Instructions::Neon];
    let mut kernels: Vec<_> = sets.into_iter().filter_map(|set| Some((format!("{set:?}"), set.kernel()?))).collect();
    kernels.push(("Model".to_owned(), Kernel::model()));
    if let Ok(demanded) = std::env::var("PHALANX_RECOVERY_SETS") {
        let demanded: Vec<_> = demanded.split(',').collect();
        kernels.retain(|(name, _)| demanded.contains(&name.as_str()));
        assert_eq!(kernels.len(), demanded.len(), "this processor lacks a set of {demanded:?}");
    }
    kernels
}

/// A digest that a random key signed, and the key's address by the key itself.
fn signed(rng: &mut ChaCha8Rng) -> ((B256, Signature), Address) {
    let (mut key, mut digest) = ([0; 32], B256::ZERO);
    rng.fill_bytes(&mut key);
    rng.fill_bytes(&mut digest.0);
    let key = SecretKey::from_slice(&key).expect("nearly all numbers are below the order");
    let (id, bytes) = SECP256K1.sign_ecdsa_recoverable(&Message::from_digest(digest.0), &key).serialize_compact();
    let mut signature = [0; 65];
    signature[..64].copy_from_slice(&bytes);
    signature[64] = i32::from(id) as u8;
    let public = key.public_key(SECP256K1).serialize_uncompressed();
    ((digest, signature), Address::from_raw_public_key(&public[1..]))
}

fn signature(r: U256, s: U256, id: u8) -> Signature {
    let mut signature = [id; 65];
    signature[..32].copy_from_slice(&r.to_be_bytes::<32>());
    signature[32..64].copy_from_slice(&s.to_be_bytes::<32>());
    signature
}

/// Compares a batch with libsecp256k1, one signature at a time.
fn compare(batch: &[(B256, Signature)]) {
    let expected: Vec<_> = batch.iter().map(|(digest, signature)| recover(digest, signature)).collect();
    for (set, kernel) in kernels() {
        // The model takes a hundred times as long, so it sees the first groups only.
        let seen = if set == "Model" { batch.len().min(16) } else { batch.len() };
        let verdicts = recover_with(&kernel, &batch[..seen]);
        assert_eq!(verdicts.len(), seen);
        for (at, (verdict, expected)) in verdicts.iter().zip(&expected).enumerate() {
            let (digest, signature) = &batch[at];
            assert_eq!(verdict, expected, "{set}, {at} of {}: {digest}, {signature:x?}", batch.len());
        }
    }
}
