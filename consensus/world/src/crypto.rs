//! Signatures and shares of a world: hashes that only their signers can make, as far as it is concerned.

use alloy_primitives::{Bytes, keccak256};
use phalanx_bft::{Claim, Crypto, Domain, Index, Input, ReplicaSet, Signed, Statement};

/// A signature that only the signer can make, as far as this world is concerned.
#[must_use]
pub fn sign(signer: Index, bytes: &[u8]) -> Bytes {
    let signature = hash(signer, bytes);
    crate::signatures::note(&signature);
    signature
}

fn hash(signer: Index, bytes: &[u8]) -> Bytes {
    Bytes::from(keccak256([&signer.0.to_be_bytes()[..], bytes].concat()).to_vec())
}

/// A statement with the signature of `signer`.
pub fn signed<T: Statement + alloy_rlp::Decodable>(signer: Index, body: T, domain: Domain) -> Signed<T> {
    Signed { signer, signature: sign(signer, &body.signed_bytes(domain)), body }
}

/// Returns true if the signer of a claim has made its signature.
#[must_use]
pub fn is_genuine(claim: &Claim) -> bool {
    hash(claim.signer, &claim.bytes) == claim.signature
}

/// Cryptographic work of a replica, and the input that answers it. A group's signature is that of its name; shares are those of their replicas. A liar's share
/// is wrong.
///
/// # Panics
/// If a share is counted twice: the protocol is wrong.
#[must_use]
pub fn work(me: Index, job: u64, crypto: Crypto, lies: bool) -> Input {
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
