//! A single message to a client: a block's result under the signature of f+1 replicas, and one transaction's part of it.
//!
//! ```text
//! π, verified under one public key ──► digest of the outcome ──► path ──► transaction: status, place
//! ```
//!
//! f+1 replicas of SBFT sign the digest of a slot's outcome together; a single signature is left of them. One of the signers is
//! correct, so that the outcome is the agreed one. An acknowledgement has one encoding, with integers in big endian:
//!
//! ```text
//! acknowledgement = version || slot (8) || digest || signature (48) || proof of the transaction
//! ```

use alloc::vec::Vec;
use blst::{
    BLST_ERROR,
    min_sig::{PublicKey, Signature},
};

use crate::{
    hash::Hash,
    outcome::{ProvenFate, verify_fate},
    proof::ProofError,
};

/// First byte of an encoded acknowledgement.
const VERSION: u8 = 0x51;

/// Length of what precedes the proof, in bytes.
const HEAD: usize = 1 + 8 + 32 + 48;

/// Separates signatures from those of other uses of the curve.
const DOMAIN: &[u8] = b"PHALANX-BFT-1_BLS12381G1_XMD:SHA-256_SSWU_RO_";

/// Number of the statement among those that replicas sign.
const KIND: u8 = 0x54;

/// Trust of a client: a network, and the public key of any f+1 of its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust<'a> {
    /// Chain id.
    pub chain: u64,
    /// Number of the replica set.
    pub epoch: u64,
    /// Name of the network; zero for one from before networks had names.
    pub instance: Hash,
    /// Public key, compressed: 96 bytes.
    pub public_key: &'a [u8; 96],
}

/// Content of an acknowledgement, verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Slot of the block.
    pub slot: u64,
    /// Digest of its outcome.
    pub digest: Hash,
    /// The transaction and the block's result.
    pub fate: ProvenFate,
}

/// Encodes an acknowledgement from a certificate and the proof of a transaction.
#[must_use]
pub fn acknowledge(slot: u64, digest: &Hash, signature: &[u8; 48], proof: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + proof.len());
    bytes.push(VERSION);
    bytes.extend_from_slice(&slot.to_be_bytes());
    bytes.extend_from_slice(digest);
    bytes.extend_from_slice(signature);
    bytes.extend_from_slice(proof);
    bytes
}

/// Verifies that f+1 replicas have agreed on the fate of the transaction with hash `tx`. Two pairings and O(log transactions)
/// hashes.
///
/// # Errors
/// The bytes are not in the one encoding, the signature is not that of the replicas, or the proof shows something else.
pub fn verify_acknowledgement(trust: &Trust<'_>, tx: &Hash, bytes: &[u8]) -> Result<Acknowledged, ProofError> {
    let (head, proof) = bytes.split_at_checked(HEAD).ok_or(ProofError::Malformed)?;
    if head[0] != VERSION {
        return Err(ProofError::Version(head[0]));
    }
    let mut number = [0; 8];
    number.copy_from_slice(&head[1..9]);
    let slot = u64::from_be_bytes(number);
    let mut digest: Hash = [0; 32];
    digest.copy_from_slice(&head[9..41]);
    // Cheap first: a signature takes a millisecond.
    let fate = verify_fate(&digest, tx, proof)?;
    let key = PublicKey::key_validate(trust.public_key).map_err(|_| ProofError::Signature)?;
    let signature = Signature::from_bytes(&head[41..]).map_err(|_| ProofError::Signature)?;
    let (statement, length) = statement(trust, slot, &digest);
    match signature.verify(true, &statement[..length], DOMAIN, &[], &key, false) {
        BLST_ERROR::BLST_SUCCESS => Ok(Acknowledged { slot, digest, fate }),
        _ => Err(ProofError::Signature),
    }
}

/// Longest statement, in bytes.
const MOST: usize = 13 + 8 + 8 + 32 + 1 + 1 + 9 + 33;

/// Bytes that replicas sign: tag, chain, epoch, the network's name if it has one, kind, then a list of slot and digest in RLP.
fn statement(trust: &Trust<'_>, slot: u64, digest: &Hash) -> ([u8; MOST], usize) {
    let (mut bytes, mut length) = ([0; MOST], 0);
    let mut put = |part: &[u8]| {
        bytes[length..length + part.len()].copy_from_slice(part);
        length += part.len();
    };
    let named = trust.instance != [0; 32];
    put(if named { b"phalanx-bft-2" } else { b"phalanx-bft-1" });
    put(&trust.chain.to_be_bytes());
    put(&trust.epoch.to_be_bytes());
    if named {
        put(&trust.instance);
    }
    put(&[KIND]);
    let number = slot.to_be_bytes();
    let number = &number[slot.leading_zeros() as usize / 8..];
    let prefix = if slot < 0x80 { 0 } else { 1 };
    let of_number = prefix + number.len().max(1);
    put(&[0xc0 + of_number as u8 + 33]);
    match number {
        [] => put(&[0x80]),
        [small] if *small < 0x80 => put(&[*small]),
        number => {
            put(&[0x80 + number.len() as u8]);
            put(number);
        }
    }
    put(&[0xa0]);
    put(digest);
    (bytes, length)
}
