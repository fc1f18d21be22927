//! Messages, signed statements inside them, and the proof that a host has verified both.

use super::{batch::Batch, replica::Index};
use alloy_primitives::{B256, Bytes};
use alloy_rlp::{Decodable, Encodable, RlpDecodable, RlpEncodable};

/// Separates signatures of one instance from those of every other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Domain {
    /// Chain id.
    pub chain: u64,
    /// Number of the replica set.
    pub epoch: u64,
    /// Name of the network: what replicas sign in one means nothing in another, also with equal keys and genesis. Zero for
    /// simulations, and for networks from before networks had names.
    pub instance: B256,
}

impl Domain {
    /// A domain of a network without a name.
    #[must_use]
    pub const fn unnamed(chain: u64, epoch: u64) -> Self {
        Self { chain, epoch, instance: B256::ZERO }
    }
}

/// A statement that replicas sign.
pub trait Statement: Encodable {
    /// Kind of the statement, part of the signed bytes: equal fields of two kinds never share a signature.
    const KIND: u8;

    /// Bytes that are signed: tag, chain, epoch, the instance if it has a name, kind, then the RLP encoding, which is canonical and
    /// carries its length.
    fn signed_bytes(&self, domain: Domain) -> Vec<u8> {
        let named = !domain.instance.is_zero();
        let mut bytes = if named { b"phalanx-bft-2".to_vec() } else { b"phalanx-bft-1".to_vec() };
        bytes.extend_from_slice(&domain.chain.to_be_bytes());
        bytes.extend_from_slice(&domain.epoch.to_be_bytes());
        if named {
            bytes.extend_from_slice(domain.instance.as_slice());
        }
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// Batches in the message: transactions that its receiver takes in.
    fn batches(&self) -> Vec<&Batch> {
        Vec::new()
    }

    /// A number that differs for different messages, for traces.
    fn label(&self) -> u64;

    /// Returns true if the message asks, or tells what is decided or executed. It is no vote, promises nothing, and leads to no vote: what a
    /// replica without its log may send and take.
    fn informs(&self) -> bool {
        false
    }
}

/// A message whose sender and signatures have been verified. A protocol takes no other.
#[derive(Clone, Debug)]
pub struct Checked<M>(M);

impl<M: Message> Checked<M> {
    /// Verifies every signature of `message` by `verify`, equal ones once. Returns `None` if one is wrong.
    pub fn new(message: M, domain: Domain, verify: impl FnOnce(&[Claim]) -> bool) -> Option<Self> {
        let mut claims = Vec::new();
        message.claims(domain, &mut claims);
        claims.sort_unstable();
        claims.dedup();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(RlpEncodable)]
    struct Said {
        number: u64,
    }

    impl Statement for Said {
        const KIND: u8 = 200;
    }

    /// A signature of one network is none in another that differs in anything.
    #[test]
    fn signed_bytes_differ_between_domains() {
        let named = |chain, epoch, name| Domain { chain, epoch, instance: B256::with_last_byte(name) };
        let domains = [named(1, 1, 0), named(2, 1, 0), named(1, 2, 0), named(1, 1, 1), named(1, 1, 2), named(2, 1, 1)];
        let signed: Vec<Vec<u8>> = domains.iter().map(|domain| Said { number: 7 }.signed_bytes(*domain)).collect();
        for (at, bytes) in signed.iter().enumerate() {
            assert!(!signed[..at].contains(bytes), "{:?} has the bytes of another domain", domains[at]);
        }
    }

    #[test]
    fn equal_claims_are_verified_once() {
        #[derive(Clone, Debug, RlpEncodable, alloy_rlp::RlpDecodable)]
        struct Repeated {
            number: u64,
        }
        impl Message for Repeated {
            fn claims(&self, _: Domain, claims: &mut Vec<Claim>) {
                let claim = |signer| Claim { signer: Index(signer), bytes: vec![1], signature: Bytes::new() };
                claims.extend([claim(2), claim(1), claim(2), claim(2)]);
            }
            fn label(&self) -> u64 {
                self.number
            }
        }
        let mut verified = 0;
        let checked = Checked::new(Repeated { number: 1 }, Domain::default(), |claims| {
            verified = claims.len();
            true
        });
        assert!(checked.is_some() && verified == 2);
    }
}
