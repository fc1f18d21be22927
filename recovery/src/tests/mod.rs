//! Every path against libsecp256k1: random, crafted and published signatures, in every lane.

mod crafted;
mod equal;
mod exceptional;
mod published;

use crate::{Instructions, Signature, recover, recover_batch_by};
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

/// Instruction sets of this processor, other than none.
fn sets() -> impl Iterator<Item = Instructions> {
    [Instructions::Avx512Ifma, Instructions::Avx2].into_iter().filter(|set| set.is_available())
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
    for set in sets() {
        let verdicts = recover_batch_by(set, batch);
        assert_eq!(verdicts.len(), batch.len());
        for (at, (verdict, (digest, signature))) in verdicts.into_iter().zip(batch).enumerate() {
            assert_eq!(
                verdict,
                recover(digest, signature),
                "{set:?}, {at} of {}: {digest}, {signature:x?}",
                batch.len()
            );
        }
    }
}
