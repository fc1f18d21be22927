//! The interface to alloy against alloy's own functions.

use super::*;
use crate::alloy::{Provider, recover_signers};
use alloy_consensus::crypto::{
    SECP256K1N_HALF,
    backend::{CryptoProvider as _, install_default_provider},
    secp256k1 as theirs,
};
use rand::{Rng as _, SeedableRng as _};
use std::{error::Error as _, sync::Arc};

fn parsed(signature: &Signature) -> alloy_primitives::Signature {
    alloy_primitives::Signature::from_raw_array(signature).expect("an id of 0 or 1")
}

/// The other signature of the same digest by the same key.
fn upper(low: &alloy_primitives::Signature) -> alloy_primitives::Signature {
    alloy_primitives::Signature::new(low.r(), crate::scalar::N - low.s(), !low.v())
}

/// One test, because a process has one provider.
#[test]
fn alloy_recovers_the_same_with_and_without_the_provider() {
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    let mut batch: Vec<_> = (0..200)
        .map(|at| {
            let ((hash, signature), _) = signed(&mut rng);
            let signature = parsed(&signature);
            match at % 5 {
                0 => (upper(&signature), hash),
                1 => {
                    let mut bytes = [0; 65];
                    rng.fill_bytes(&mut bytes);
                    bytes[64] %= 2;
                    (parsed(&bytes), hash)
                }
                _ => (signature, hash),
            }
        })
        .collect();
    batch.push((alloy_primitives::Signature::new(U256::ZERO, U256::ZERO, false), B256::ZERO));
    let singly = |checked: bool| -> Vec<_> {
        let one = |(signature, hash): &(alloy_primitives::Signature, B256)| match checked {
            true => theirs::recover_signer(signature, *hash).ok(),
            false => theirs::recover_signer_unchecked(signature, *hash).ok(),
        };
        batch.iter().map(one).collect()
    };
    let (checked, unchecked) = (singly(true), singly(false));
    assert!(checked.iter().flatten().count() >= 120 && unchecked.iter().flatten().count() > checked.len() / 5 * 4);
    let ours = recover_signers(batch.iter().map(|(signature, hash)| (signature, *hash)));
    for ((ours, theirs), (signature, _)) in ours.iter().zip(&checked).zip(&batch) {
        assert_eq!(ours.as_ref().ok(), theirs.as_ref(), "{signature}");
        let refused = ours.as_ref().err().and_then(|error| error.source()).is_some();
        assert_eq!(refused, signature.s() > SECP256K1N_HALF, "{signature}");
    }
    assert_eq!(ours.len(), batch.len());
    install_default_provider(Arc::new(Provider)).expect("no other test installs one");
    assert_eq!((singly(true), singly(false)), (checked, unchecked));
}

#[test]
fn any_id_and_any_key_are_judged_without_a_panic() {
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    let ((hash, signature), address) = signed(&mut rng);
    for id in 0..=255 {
        let mut other = signature;
        other[64] = id;
        let signer = Provider.recover_signer_unchecked(&other, &hash).ok();
        assert_eq!(signer, recover(&hash, &other).ok(), "id {id}");
        assert_eq!(signer == Some(address), id == signature[64], "id {id}");
    }
    let recovered = secp256k1::ecdsa::RecoverableSignature::from_compact(
        &signature[..64],
        i32::from(signature[64]).try_into().expect("an id"),
    )
    .and_then(|signature| SECP256K1.recover_ecdsa(&Message::from_digest(hash.0), &signature));
    let key = recovered.expect("signed").serialize_uncompressed();
    let low = parsed(&signature);
    for signature in [low, upper(&low)] {
        let numbers = signature.as_rsy()[..64].try_into().expect("64 bytes");
        let verified =
            |key: &[u8; 65], hash: &[u8; 32]| Provider.verify_and_compute_signer_unchecked(key, &numbers, hash).ok();
        assert_eq!(verified(&key, &hash), Some(address));
        assert_eq!(verified(&key, &[1; 32]), None, "another digest");
        for byte in 0..65 {
            let mut other = key;
            other[byte] ^= 1 << rng.random_range(0..8);
            assert_ne!(verified(&other, &hash), Some(address), "byte {byte} of the key");
        }
        assert_eq!(verified(&[0; 65], &hash), None);
    }
    assert!(Provider.verify_and_compute_signer_unchecked(&key, &[0xff; 64], &hash).is_err());
}
