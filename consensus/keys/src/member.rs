//! Keys that each operator makes alone: a secret half, which stays on one machine, and a public half for the others.
//!
//! Channel keys are agreed by X25519 between two members, so that no operator hands out a secret.

use crate::{
    file::{KeyError, KeyFile, derive, fresh_seed, public_of},
    summed,
};
use alloy_primitives::{B256, Bytes};
use curve25519_dalek::MontgomeryPoint;
use ed25519_zebra::{Signature, SigningKey, VerificationKey};
use phalanx_bft::{Index, MAX_REPLICAS};
use serde::{Deserialize, Serialize};

/// Version of both formats.
const VERSION: u32 = 1;

/// Secret half of an operator's keys: JSON, 32 bytes from the operating system in hex.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnKeys {
    version: u32,
    /// Seed of every key. Secret.
    seed: B256,
}

/// Public half of an operator's keys, signed by the secret one: a member cannot claim keys of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicKeys {
    version: u32,
    /// Ed25519 key of signatures.
    signing: B256,
    /// X25519 key that channel keys are agreed with.
    channel: B256,
    /// Signature of both.
    proof: Bytes,
}

/// The members of a network in the order of their indices, each with proven keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    instance: B256,
    epoch: u64,
    members: Vec<PublicKeys>,
}

impl core::fmt::Debug for OwnKeys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("OwnKeys").finish_non_exhaustive()
    }
}

impl OwnKeys {
    /// Keys from the randomness of the operating system.
    ///
    /// # Errors
    /// The system gives none.
    pub fn fresh() -> Result<Self, KeyError> {
        Ok(Self { version: VERSION, seed: B256::new(fresh_seed()?) })
    }

    /// Parses the secret half.
    ///
    /// # Errors
    /// The bytes are no such file.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeyError> {
        let keys: Self = summed::read(bytes)?;
        match keys.version {
            VERSION => Ok(keys),
            version => Err(KeyError::Version { version }),
        }
    }

    /// The file's content.
    #[must_use]
    pub fn to_json(&self) -> String {
        summed::write(self)
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> PublicKeys {
        let signing = public_of(self.signing_seed());
        let channel = B256::new(MontgomeryPoint::mul_base_clamped(self.channel_secret().0).to_bytes());
        let proof = self.sign(&claimed(&signing, &channel));
        PublicKeys { version: VERSION, signing, channel, proof }
    }

    /// Signs bytes, which say themselves what they are for, with the key of the replica's signatures.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> Bytes {
        Bytes::copy_from_slice(&<[u8; 64]>::from(SigningKey::from(self.signing_seed().0).sign(bytes)))
    }

    /// A hasher that holds the secret, for numbers of one purpose.
    pub(crate) fn secret(&self, context: &str) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(self.seed.as_slice());
        hasher
    }

    fn signing_seed(&self) -> B256 {
        derive(&self.seed.0, "phalanx-keys 1 own signing", &[])
    }

    fn channel_secret(&self) -> B256 {
        derive(&self.seed.0, "phalanx-keys 1 own channel", &[])
    }
}

impl PublicKeys {
    /// The key of signatures, by which operators recognise each other.
    #[must_use]
    pub const fn signing(&self) -> B256 {
        self.signing
    }

    /// Returns true if the member signed these bytes.
    pub(crate) fn has_signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        let key = VerificationKey::try_from(self.signing.0);
        let signature = Signature::try_from(signature);
        key.ok().zip(signature.ok()).is_some_and(|(key, signature)| key.verify(&signature, bytes).is_ok())
    }

    /// Checks the public half of one member, who will have this index.
    ///
    /// # Errors
    /// The version is another one, or the keys are not signed by their secret half.
    pub fn check(&self, index: usize) -> Result<(), KeyError> {
        if self.version != VERSION {
            return Err(KeyError::Version { version: self.version });
        }
        match self.has_signed(&claimed(&self.signing, &self.channel), &self.proof) {
            true => Ok(()),
            false => Err(KeyError::Unproven { index, what: "are not signed by their secret half" }),
        }
    }
}

impl Roster {
    /// The members of the network with this name in its first epoch, in the order of their indices.
    ///
    /// # Errors
    /// Keys are not proven, two members share one, or there are none or too many members.
    pub fn new(instance: B256, members: Vec<PublicKeys>) -> Result<Self, KeyError> {
        if members.is_empty() || members.len() > MAX_REPLICAS {
            return Err(KeyError::Members { members: members.len() });
        }
        for (second, member) in members.iter().enumerate() {
            member.check(second)?;
            let same = |other: &PublicKeys| other.signing == member.signing || other.channel == member.channel;
            if let Some(first) = members[..second].iter().position(same) {
                return Err(KeyError::Duplicate { first, second });
            }
        }
        Ok(Self { instance, epoch: 0, members })
    }

    /// The same members in another epoch, where they have other keys of channels and groups.
    #[must_use]
    pub const fn in_epoch(mut self, epoch: u64) -> Self {
        self.epoch = epoch;
        self
    }

    /// Public halves, by index.
    #[must_use]
    pub fn members(&self) -> &[PublicKeys] {
        &self.members
    }

    /// Index of the member with these keys.
    ///
    /// # Errors
    /// There is none.
    pub fn index_of(&self, own: &OwnKeys) -> Result<Index, KeyError> {
        let public = own.public();
        let at = self.members.iter().position(|member| *member == public).ok_or(KeyError::Stranger)?;
        Ok(Index(at as u16))
    }

    /// Hash of name, epoch and members, by which operators see that they have one roster.
    #[must_use]
    pub fn digest(&self) -> B256 {
        let mut hasher = blake3::Hasher::new_derive_key("phalanx-keys 1 roster");
        hasher.update(self.instance.as_slice());
        if self.epoch > 0 {
            hasher.update(&self.epoch.to_be_bytes());
        }
        for member in &self.members {
            hasher.update(member.signing.as_slice()).update(member.channel.as_slice());
        }
        B256::new(*hasher.finalize().as_bytes())
    }

    /// The key file of the member with these keys.
    ///
    /// # Errors
    /// No member has them, or the channel key of another member is no key.
    pub fn key_file(&self, own: &OwnKeys) -> Result<KeyFile, KeyError> {
        let index = self.index_of(own)?;
        let channel = |peer: usize| match peer == usize::from(index.0) {
            true => Ok(B256::ZERO),
            false => self.agreed(own, index, Index(peer as u16), "phalanx-keys 1 own channels"),
        };
        let channels = (0..self.members.len()).map(channel).collect::<Result<_, _>>()?;
        let public = self.members.iter().map(|member| member.signing).collect();
        KeyFile::of(index, own.signing_seed(), public, channels)
    }

    /// A secret that two members alone know, for one purpose, the same at both ends.
    pub(crate) fn agreed(&self, own: &OwnKeys, me: Index, peer: Index, context: &str) -> Result<B256, KeyError> {
        let index = usize::from(peer.0);
        let shared = MontgomeryPoint(self.members[index].channel.0).mul_clamped(own.channel_secret().0).to_bytes();
        // A point of small order, with which everyone agrees on zero.
        if shared == [0; 32] {
            return Err(KeyError::Unproven { index, what: "have a channel key that keeps no secret" });
        }
        let ends = [me.0.min(peer.0), me.0.max(peer.0)].map(|end| end.to_be_bytes()).concat();
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(&shared).update(self.digest().as_slice()).update(&ends);
        Ok(B256::new(*hasher.finalize().as_bytes()))
    }
}

/// Bytes that the secret half signs of the public one.
fn claimed(signing: &B256, channel: &B256) -> Vec<u8> {
    [b"phalanx-keys 1 public half", signing.as_slice(), channel.as_slice()].concat()
}
