//! Signatures over statements.

use crate::file::{KeyError, KeyFile, verification_keys};
use alloy_primitives::{B256, Bytes};
use ed25519_zebra::{Signature, SigningKey, VerificationKey, VerificationKeyBytes, batch};
use phalanx_bft::{Claim, Group, Index, ReplicaSet};

/// Claims from which on a batch is faster than one verification after the other.
const SMALLEST_BATCH: usize = 3;

/// A claim whose signature is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature of {signer} over claim {at} is wrong")]
pub struct BadSignature {
    /// Place of the claim.
    pub at: usize,
    /// Replica that is said to have signed.
    pub signer: Index,
}

/// Signs the own statements and verifies those of others.
pub trait Scheme: core::fmt::Debug + Send + Sync {
    /// Signs bytes with the own key. The bytes carry domain and kind, see [`phalanx_bft::Statement`].
    fn sign(&self, bytes: &[u8]) -> Bytes;

    /// Verifies every claim.
    ///
    /// # Errors
    /// Names the first claim whose signature is wrong.
    fn verify(&self, claims: &[Claim]) -> Result<(), BadSignature>;

    /// Returns true if every claim is right. Unlike [`Scheme::verify`], it looks for no culprit: wrong claims cost no more than
    /// right ones.
    fn accepts(&self, claims: &[Claim]) -> bool {
        self.verify(claims).is_ok()
    }

    /// Length of a signature, in bytes.
    fn signature_bytes(&self) -> usize;

    /// Signs bytes with the own share of a group's key. Empty if the scheme has none.
    fn share(&self, group: Group, bytes: &[u8]) -> Bytes {
        let _ = (group, bytes);
        Bytes::new()
    }

    /// Combines the shares of enough replicas to the signature of a group, and verifies it.
    ///
    /// # Errors
    /// Names the replicas whose shares are wrong: all of them, if the scheme has no shares.
    fn combine(&self, group: Group, bytes: &[u8], shares: &[(Index, Bytes)]) -> Result<Bytes, ReplicaSet> {
        let _ = (group, bytes);
        Err(shares.iter().map(|(signer, _)| *signer).collect())
    }
}

/// Ed25519 by the rules of ZIP-215: batches and single verifications accept the same signatures.
#[derive(Clone)]
pub struct Ed25519 {
    /// `None` for a verifier.
    signing: Option<SigningKey>,
    keys: Vec<VerificationKey>,
}

impl core::fmt::Debug for Ed25519 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ed25519").field("replicas", &self.keys.len()).finish_non_exhaustive()
    }
}

impl Ed25519 {
    /// The scheme of the replica whose keys these are.
    ///
    /// # Errors
    /// The keys do not belong together.
    pub fn new(file: &KeyFile) -> Result<Self, KeyError> {
        file.check()?;
        Ok(Self { signing: Some(file.signing_key()), keys: file.verification_keys()? })
    }

    /// A verifier of what the replicas with these keys sign. It signs nothing.
    ///
    /// # Errors
    /// A key is none.
    pub fn verifier(keys: &[B256]) -> Result<Self, KeyError> {
        Ok(Self { signing: None, keys: verification_keys(keys)? })
    }

    fn verify_one(&self, claim: &Claim) -> bool {
        let key = self.keys.get(usize::from(claim.signer.0));
        let signature = Signature::try_from(claim.signature.as_ref());
        key.zip(signature.ok()).is_some_and(|(key, signature)| key.verify(&signature, &claim.bytes).is_ok())
    }

    /// Verifies all claims in one equation. The coefficients follow from the claims, so that equal claims take equal paths.
    fn verify_batch(&self, claims: &[Claim]) -> bool {
        let mut batch = batch::Verifier::new();
        for claim in claims {
            let Some(key) = self.keys.get(usize::from(claim.signer.0)) else { return false };
            let Ok(signature) = Signature::try_from(claim.signature.as_ref()) else { return false };
            batch.queue((VerificationKeyBytes::from(*key), signature, &claim.bytes));
        }
        batch.verify(Coefficients::new(claims)).is_ok()
    }
}

impl Scheme for Ed25519 {
    fn sign(&self, bytes: &[u8]) -> Bytes {
        let signed = self.signing.as_ref().map(|key| <[u8; 64]>::from(key.sign(bytes)));
        signed.map(|signature| Bytes::copy_from_slice(&signature)).unwrap_or_default()
    }

    fn verify(&self, claims: &[Claim]) -> Result<(), BadSignature> {
        if claims.len() >= SMALLEST_BATCH && self.verify_batch(claims) {
            return Ok(());
        }
        match claims.iter().position(|claim| !self.verify_one(claim)) {
            Some(at) => Err(BadSignature { at, signer: claims[at].signer }),
            None => Ok(()),
        }
    }

    fn accepts(&self, claims: &[Claim]) -> bool {
        match claims.len() {
            0..SMALLEST_BATCH => claims.iter().all(|claim| self.verify_one(claim)),
            _ => self.verify_batch(claims),
        }
    }

    fn signature_bytes(&self) -> usize {
        64
    }
}

/// Coefficients of a batch, drawn from a hash of all its claims: an attacker who chooses the claims cannot choose them.
struct Coefficients(blake3::OutputReader);

impl Coefficients {
    fn new(claims: &[Claim]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("phalanx-keys 1 batch");
        for Claim { signer, bytes, signature } in claims {
            hasher.update(&signer.0.to_be_bytes());
            for part in [bytes.as_slice(), signature] {
                hasher.update(&(part.len() as u64).to_be_bytes());
                hasher.update(part);
            }
        }
        Self(hasher.finalize_xof())
    }
}

impl rand_core::TryRng for Coefficients {
    type Error = core::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.0.fill(bytes);
        Ok(())
    }
}

impl rand_core::TryCryptoRng for Coefficients {}

/// Signatures for simulations: a keyed hash that any replica of the simulation can check, with the length of a real one.
///
/// Every replica knows every key, so these prove nothing outside a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Simulated {
    me: Index,
    signature_bytes: usize,
}

impl Simulated {
    /// The scheme of a replica, with signatures of `signature_bytes` bytes, at least 16.
    #[must_use]
    pub const fn new(me: Index, signature_bytes: usize) -> Self {
        Self { me, signature_bytes: if signature_bytes < 16 { 16 } else { signature_bytes } }
    }

    fn signature(&self, signer: Index, bytes: &[u8]) -> Bytes {
        let mut hasher = blake3::Hasher::new_derive_key("phalanx-keys 1 simulated");
        hasher.update(&signer.0.to_be_bytes()).update(bytes);
        let mut signature = vec![0; self.signature_bytes];
        hasher.finalize_xof().fill(&mut signature);
        signature.into()
    }
}

impl Scheme for Simulated {
    fn sign(&self, bytes: &[u8]) -> Bytes {
        self.signature(self.me, bytes)
    }

    fn verify(&self, claims: &[Claim]) -> Result<(), BadSignature> {
        let is_wrong = |claim: &Claim| self.signature(claim.signer, &claim.bytes) != claim.signature;
        match claims.iter().position(is_wrong) {
            Some(at) => Err(BadSignature { at, signer: claims[at].signer }),
            None => Ok(()),
        }
    }

    fn signature_bytes(&self) -> usize {
        self.signature_bytes
    }

    fn share(&self, group: Group, bytes: &[u8]) -> Bytes {
        self.signature(self.me, &of_group(group, bytes))
    }

    fn combine(&self, group: Group, bytes: &[u8], shares: &[(Index, Bytes)]) -> Result<Bytes, ReplicaSet> {
        let signed = of_group(group, bytes);
        let wrong = |(signer, share): &&(Index, Bytes)| self.signature(*signer, &signed) != *share;
        let liars: ReplicaSet = shares.iter().filter(wrong).map(|(signer, _)| *signer).collect();
        if liars.is_empty() { Ok(self.signature(group.signer(), bytes)) } else { Err(liars) }
    }
}

/// Bytes that a share signs in a simulation.
fn of_group(group: Group, bytes: &[u8]) -> Vec<u8> {
    [&[group.shares() as u8], bytes].concat()
}
