//! Recovery of a single signature by libsecp256k1: the judge of every verdict.

use alloy_primitives::{Address, B256, keccak256};
use secp256k1::{
    Message, SECP256K1,
    ecdsa::{RecoverableSignature, RecoveryId},
};

/// A signature: r and s, big-endian, and the recovery id. Ids 0 and 1 are the parity of y of R; 2 and 3 add that x of R is r
/// plus the order.
pub type Signature = [u8; 65];

/// Reason for which a signature has no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The recovery id is above 3.
    #[error("the recovery id is {id}, above 3")]
    RecoveryId {
        /// The id.
        id: u8,
    },
    /// r or s is zero or not below the order, r is of no point, or the key is the point at infinity.
    #[error("no key has this signature of this digest")]
    NoKey,
}

/// Recovers the address that signed `digest`, with libsecp256k1. High s is accepted: rules about it are the caller's.
///
/// # Errors
/// [`Error`], whatever the bytes. Never panics.
pub fn recover(digest: &B256, signature: &Signature) -> Result<Address, Error> {
    let id = RecoveryId::try_from(i32::from(signature[64])).map_err(|_| Error::RecoveryId { id: signature[64] })?;
    let signature = RecoverableSignature::from_compact(&signature[..64], id).map_err(|_| Error::NoKey)?;
    let key = SECP256K1.recover_ecdsa(&Message::from_digest(digest.0), &signature).map_err(|_| Error::NoKey)?;
    Ok(Address::from_slice(&keccak256(&key.serialize_uncompressed()[1..])[12..]))
}
