//! Signatures and shares of a world: hashes that only their signers can make, as far as it is concerned.

use alloy_primitives::{Bytes, keccak256};
use phalanx_bft::{Claim, Crypto, Index, Input, ReplicaSet};

/// A signature that only the signer can make, as far as this world is concerned.
pub(crate) fn sign(signer: Index, bytes: &[u8]) -> Bytes {
    let signature = hash(signer, bytes);
    super::signatures::note(&signature);
    signature
}

fn hash(signer: Index, bytes: &[u8]) -> Bytes {
    Bytes::from(keccak256([&signer.0.to_be_bytes()[..], bytes].concat()).to_vec())
}

pub(crate) fn is_genuine(claim: &Claim) -> bool {
    hash(claim.signer, &claim.bytes) == claim.signature
}

/// Cryptographic work of a replica. A group's signature is that of its name; shares are those of their replicas. A liar's share
/// is wrong.
pub(crate) fn work(me: Index, job: u64, crypto: Crypto, lies: bool) -> Input {
    // Shares are no claims: they are verified when they are combined.
    let share = |signer: Index, bytes: &[u8]| hash(signer, &[b"share".as_slice(), bytes].concat());
    match crypto {
        Crypto::Sign(bytes) => Input::Signed { job, signature: sign(me, &bytes) },
        Crypto::Share { group, bytes } if !lies => {
            Input::Signed { job, signature: share(me, &[&[group as u8], bytes.as_slice()].concat()) }
        }
        Crypto::Share { .. } => Input::Signed { job, signature: Bytes::from_static(b"junk") },
        Crypto::Combine { group, bytes, shares } => {
            let signed = [&[group.shares() as u8], bytes.as_slice()].concat();
            let wrong = |(signer, own): &&(Index, Bytes)| share(*signer, &signed) != *own;
            let liars: ReplicaSet = shares.iter().filter(wrong).map(|(signer, _)| *signer).collect();
            let distinct: ReplicaSet = shares.iter().map(|(signer, _)| *signer).collect();
            assert_eq!(distinct.len(), shares.len(), "a share is counted twice");
            let result = if liars.is_empty() { Ok(sign(group.signer(), &bytes)) } else { Err(liars) };
            Input::Combined { job, result }
        }
    }
}
