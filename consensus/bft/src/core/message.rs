//! Messages, signed statements inside them, and the proof that a host has verified both.

use super::replica::Index;
use alloy_primitives::{B256, Bytes};
use alloy_rlp::{Decodable, Encodable, RlpDecodable, RlpEncodable};

/// Separates signatures of one instance from those of every other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Domain {
    /// Chain id.
    pub chain: u64,
    /// Number of the replica set.
    pub epoch: u64,
}

/// A statement that replicas sign.
pub trait Statement: Encodable {
    /// Kind of the statement, part of the signed bytes: equal fields of two kinds never share a signature.
    const KIND: u8;

    /// Bytes that are signed: tag, chain, epoch, kind, then the RLP encoding, which is canonical and carries its length.
    fn signed_bytes(&self, domain: Domain) -> Vec<u8> {
        let mut bytes = b"phalanx-bft-1".to_vec();
        bytes.extend_from_slice(&domain.chain.to_be_bytes());
        bytes.extend_from_slice(&domain.epoch.to_be_bytes());
        bytes.push(Self::KIND);
        self.encode(&mut bytes);
        bytes
    }
}

/// A statement with its signature.
#[derive(Clone, Debug, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct Signed<T: Encodable + Decodable> {
    /// Replica that signed.
    pub signer: Index,
    /// Signature over [`Statement::signed_bytes`].
    pub signature: Bytes,
    /// The statement.
    pub body: T,
}

impl<T: Statement + Decodable> Signed<T> {
    /// The claim that a host has to verify.
    pub fn claim(&self, domain: Domain) -> Claim {
        Claim { signer: self.signer, bytes: self.body.signed_bytes(domain), signature: self.signature.clone() }
    }
}

/// A signature to verify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Replica that is said to have signed, or [`Group::signer`](super::Group::signer).
    pub signer: Index,
    /// Bytes that are said to be signed.
    pub bytes: Vec<u8>,
    /// The signature.
    pub signature: Bytes,
}

/// A message of a protocol. The channel authenticates its sender; statements that travel further are signed.
pub trait Message: Clone + Encodable + Decodable {
    /// Appends every signature in the message.
    fn claims(&self, domain: Domain, claims: &mut Vec<Claim>);

    /// A number that differs for different messages, for traces.
    fn label(&self) -> u64;
}

/// A message whose sender and signatures have been verified. A protocol takes no other.
#[derive(Clone, Debug)]
pub struct Checked<M>(M);

impl<M: Message> Checked<M> {
    /// Verifies every signature of `message` by `verify`. Returns `None` if one is wrong.
    pub fn new(message: M, domain: Domain, verify: impl FnOnce(&[Claim]) -> bool) -> Option<Self> {
        let mut claims = Vec::new();
        message.claims(domain, &mut claims);
        (claims.is_empty() || verify(&claims)).then_some(Self(message))
    }

    /// The message.
    #[must_use]
    pub const fn get(&self) -> &M {
        &self.0
    }

    /// The message.
    #[must_use]
    pub fn into_inner(self) -> M {
        self.0
    }
}

/// First eight bytes of a hash, for labels.
pub(crate) fn short(hash: &B256) -> u64 {
    u64::from_be_bytes(hash.0[..8].try_into().expect("a hash has 32 bytes"))
}
