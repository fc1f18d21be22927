//! The scheme: Ed25519 for single replicas, BLS for groups.

use super::{
    field::lagrange,
    file::{BlsFile, SHARED, public, threshold},
};
use crate::{
    file::KeyError,
    scheme::{BadSignature, Ed25519, Scheme},
};
use alloy_primitives::{Bytes, U256};
use blst::{
    BLST_ERROR, MultiPoint as _, blst_p1_affine, blst_p2_affine,
    min_sig::{AggregatePublicKey, AggregateSignature, PublicKey, SecretKey, Signature},
};
use phalanx_bft::{Claim, Group, Index, ReplicaSet};

/// Separates signatures from those of other uses of the curve.
pub(super) const DOMAIN: &[u8] = b"PHALANX-BFT-1_BLS12381G1_XMD:SHA-256_SSWU_RO_";

/// Bits of the coefficients of a batch.
const BATCH_BITS: usize = 128;

/// Bits of Lagrange's coefficients.
const ORDER_BITS: usize = 255;

/// Signatures of replicas by Ed25519, and of groups by BLS.
#[derive(Clone)]
pub struct Bls {
    single: Ed25519,
    replicas: usize,
    faulty: usize,
    secrets: Vec<SecretKey>,
    /// Keys of [`Group::ALL`], in that order.
    groups: Vec<PublicKey>,
    /// Keys of the shares of σ, τ and π, by replica.
    shares: Vec<Vec<PublicKey>>,
}

impl core::fmt::Debug for Bls {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Bls").field("replicas", &self.replicas).field("faulty", &self.faulty).finish_non_exhaustive()
    }
}

impl Bls {
    /// The scheme of the replica whose keys these are.
    ///
    /// # Errors
    /// The keys do not belong together: a secret share to another public one, or a group's key to other shares.
    pub fn new(file: &BlsFile) -> Result<Self, KeyError> {
        file.check()?;
        let (index, n, f) = (file.keys().index(), file.keys().replicas(), file.faulty());
        let wrong = |what| KeyError::Groups { index: index.0, what };
        let (mut secrets, mut groups, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        for (at, group) in SHARED.into_iter().enumerate() {
            let keys = file.group(at);
            let secret = SecretKey::from_bytes(&keys.secret.0).map_err(|_| wrong("have no secret share"))?;
            let public_shares =
                keys.shares.iter().map(|bytes| public(index.0, bytes)).collect::<Result<Vec<_>, _>>()?;
            let whole = public(index.0, &keys.public)?;
            if public_shares[usize::from(index.0)] != secret.sk_to_pk() {
                return Err(wrong("have a secret share of another replica"));
            }
            // Every share lies on the group's polynomial where both ends of the range interpolate to the same key.
            let needed = threshold(group, n, f);
            for first in [0, n - needed] {
                if interpolated(&public_shares, first, needed) != whole {
                    return Err(wrong("have a group's key that is not that of its shares"));
                }
            }
            secrets.push(secret);
            shares.push(public_shares);
            groups.push(whole);
        }
        let all: Vec<&PublicKey> = shares[0].iter().collect();
        let all = AggregatePublicKey::aggregate(&all, false).map_err(|_| wrong("do not add up"))?;
        groups.insert(0, all.to_public_key());
        Ok(Self { single: Ed25519::new(file.keys())?, replicas: n, faulty: f, secrets, groups, shares })
    }

    /// Verifies claims of groups in one equation of pairings.
    fn verify_groups(&self, claims: &[(Group, &Claim)]) -> bool {
        let mut signatures = Vec::with_capacity(claims.len());
        for (_, claim) in claims {
            let Ok(signature) = Signature::from_bytes(&claim.signature) else { return false };
            signatures.push(signature);
        }
        let key = |group: Group| &self.groups[group as usize];
        if let ([signature], [(group, claim)]) = (signatures.as_slice(), claims) {
            return signature.verify(true, &claim.bytes, DOMAIN, &[], key(*group), false) == BLST_ERROR::BLST_SUCCESS;
        }
        let messages: Vec<&[u8]> = claims.iter().map(|(_, claim)| claim.bytes.as_slice()).collect();
        let keys: Vec<&PublicKey> = claims.iter().map(|(group, _)| key(*group)).collect();
        let mut hasher = blake3::Hasher::new_derive_key("phalanx-keys 1 group batch");
        for (_, claim) in claims {
            for part in [&claim.signer.0.to_be_bytes()[..], &claim.bytes, &claim.signature] {
                hasher.update(&(part.len() as u64).to_be_bytes()).update(part);
            }
        }
        let random: Vec<blst::blst_scalar> = coefficients(&hasher, claims.len())
            .chunks(BATCH_BITS / 8)
            .map(|bytes| {
                let mut scalar = blst::blst_scalar::default();
                scalar.b[..bytes.len()].copy_from_slice(bytes);
                scalar
            })
            .collect();
        let signatures: Vec<&Signature> = signatures.iter().collect();
        Signature::verify_multiple_aggregate_signatures(
            &messages,
            DOMAIN,
            &keys,
            false,
            &signatures,
            true,
            &random,
            BATCH_BITS,
        ) == BLST_ERROR::BLST_SUCCESS
    }

    /// Finds wrong shares by halves: a half without any is left after one verification.
    fn find_liars(&self, group: Group, bytes: &[u8], shares: &[(Index, Signature)], liars: &mut ReplicaSet) {
        if shares.is_empty() || self.are_right(group, bytes, shares) {
            return;
        }
        if let [(liar, _)] = shares {
            liars.insert(*liar);
            return;
        }
        let (left, right) = shares.split_at(shares.len() / 2);
        self.find_liars(group, bytes, left, liars);
        self.find_liars(group, bytes, right, liars);
    }

    /// Verifies shares over the same bytes together.
    fn are_right(&self, group: Group, bytes: &[u8], shares: &[(Index, Signature)]) -> bool {
        let known = &self.shares[place(group)];
        let mut hasher = blake3::Hasher::new_derive_key("phalanx-keys 1 share batch");
        hasher.update(bytes);
        for (signer, share) in shares {
            hasher.update(&signer.0.to_be_bytes()).update(&share.to_bytes());
        }
        let random = coefficients(&hasher, shares.len());
        let keys: Vec<blst_p2_affine> = shares.iter().map(|(signer, _)| known[usize::from(signer.0)].into()).collect();
        let points: Vec<blst_p1_affine> = shares.iter().map(|(_, share)| (*share).into()).collect();
        if shares.iter().any(|(_, share)| share.validate(true).is_err()) {
            return false;
        }
        let key = AggregatePublicKey::from(keys.as_slice().mult(&random, BATCH_BITS)).to_public_key();
        let sum = AggregateSignature::from(points.as_slice().mult(&random, BATCH_BITS)).to_signature();
        sum.verify(false, bytes, DOMAIN, &[], &key, false) == BLST_ERROR::BLST_SUCCESS
    }
}

impl Scheme for Bls {
    fn sign(&self, bytes: &[u8]) -> Bytes {
        self.single.sign(bytes)
    }

    fn verify(&self, claims: &[Claim]) -> Result<(), BadSignature> {
        let of_group = |claim: &Claim| Group::from_signer(claim.signer);
        if self.accepts(claims) {
            return Ok(());
        }
        let is_wrong = |claim: &Claim| match of_group(claim) {
            Some(group) => !self.verify_groups(&[(group, claim)]),
            None => self.single.verify(core::slice::from_ref(claim)).is_err(),
        };
        match claims.iter().position(is_wrong) {
            Some(at) => Err(BadSignature { at, signer: claims[at].signer }),
            None => Ok(()),
        }
    }

    fn accepts(&self, claims: &[Claim]) -> bool {
        let of_group = |claim: &Claim| Group::from_signer(claim.signer);
        let groups: Vec<(Group, &Claim)> = claims.iter().filter_map(|c| Some((of_group(c)?, c))).collect();
        let singles: Vec<Claim> = claims.iter().filter(|claim| of_group(claim).is_none()).cloned().collect();
        self.single.accepts(&singles) && (groups.is_empty() || self.verify_groups(&groups))
    }

    fn signature_bytes(&self) -> usize {
        self.single.signature_bytes()
    }

    fn share(&self, group: Group, bytes: &[u8]) -> Bytes {
        self.secrets[place(group)].sign(bytes, DOMAIN, &[]).to_bytes().into()
    }

    fn combine(&self, group: Group, bytes: &[u8], shares: &[(Index, Bytes)]) -> Result<Bytes, ReplicaSet> {
        let mut liars = ReplicaSet::default();
        let (mut parsed, mut seen) = (Vec::with_capacity(shares.len()), ReplicaSet::default());
        for (signer, share) in shares {
            let point = Signature::from_bytes(share).ok().filter(|_| usize::from(signer.0) < self.replicas);
            match point {
                Some(point) if seen.insert(*signer) => parsed.push((*signer, point)),
                _ => drop(liars.insert(*signer)),
            }
        }
        let needed = threshold(group, self.replicas, self.faulty);
        if parsed.len() < needed {
            self.find_liars(group, bytes, &parsed, &mut liars);
            return Err(liars);
        }
        parsed.truncate(needed);
        let points: Vec<blst_p1_affine> = parsed.iter().map(|(_, share)| (*share).into()).collect();
        let sum = match group {
            Group::All => points.as_slice().add(),
            _ => {
                let places: Vec<u64> = parsed.iter().map(|(signer, _)| u64::from(signer.0) + 1).collect();
                points.as_slice().mult(&little_endian(&lagrange(&places)), ORDER_BITS)
            }
        };
        let signature = AggregateSignature::from(sum).to_signature();
        let key = &self.groups[group as usize];
        if signature.verify(true, bytes, DOMAIN, &[], key, false) == BLST_ERROR::BLST_SUCCESS {
            return Ok(signature.to_bytes().into());
        }
        self.find_liars(group, bytes, &parsed, &mut liars);
        Err(liars)
    }
}

/// Place of a group's shares in the file.
const fn place(group: Group) -> usize {
    group.shares() as usize - 1
}

/// The key whose shares these are, from `needed` of them.
fn interpolated(shares: &[PublicKey], first: usize, needed: usize) -> PublicKey {
    let places: Vec<u64> = (first..first + needed).map(|at| at as u64 + 1).collect();
    let points: Vec<blst_p2_affine> = shares[first..first + needed].iter().map(|key| (*key).into()).collect();
    AggregatePublicKey::from(points.as_slice().mult(&little_endian(&lagrange(&places)), ORDER_BITS)).to_public_key()
}

/// Scalars one after the other, as a multi-scalar multiplication takes them.
pub(super) fn little_endian(scalars: &[U256]) -> Vec<u8> {
    scalars.iter().flat_map(|scalar| scalar.to_le_bytes::<32>()).collect()
}

/// Coefficients of a batch, drawn from a hash of everything in it: an attacker who chooses the batch cannot choose them.
fn coefficients(hasher: &blake3::Hasher, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count * BATCH_BITS / 8];
    hasher.finalize_xof().fill(&mut bytes);
    // None is zero.
    bytes.chunks_mut(BATCH_BITS / 8).for_each(|scalar| scalar[0] |= 1);
    bytes
}
