//! Key files: the secrets of one replica, and the public keys of all.

use crate::summed::{self, Unread};
use alloy_primitives::B256;
use ed25519_zebra::{SigningKey, VerificationKey};
use phalanx_bft::{Index, MAX_REPLICAS};
use serde::{Deserialize, Serialize};

/// Version of the format.
const VERSION: u32 = 1;

/// Keys of one replica, as its file holds them: JSON, 32-byte values in hex.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    version: u32,
    index: u16,
    /// Seed of the signing key. Secret.
    signing_seed: B256,
    /// Public key of each replica, by index.
    public_keys: Vec<B256>,
    /// Key shared with each replica, by index. Secret; the own one is zero.
    channel_keys: Vec<B256>,
}

/// Reason why a key file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file is not JSON of this shape.
    #[error("the key file is malformed: {what}")]
    Malformed {
        /// Message of the parser.
        what: String,
    },
    /// The content is not what the checksum in the file is of.
    #[error("the key file is damaged, or was edited: its checksum is of other content. Take it from a copy")]
    Damaged,
    /// The file has another version.
    #[error("the key file has version {version}, this program reads version 1: deal the keys again")]
    Version {
        /// Version of the file.
        version: u32,
    },
    /// The numbers of keys and replicas do not fit.
    #[error("the key file of replica {index} has {public} public and {channel} channel keys: deal the keys again")]
    Count {
        /// Index of the replica.
        index: u16,
        /// Number of public keys.
        public: usize,
        /// Number of channel keys.
        channel: usize,
    },
    /// A public key is not a point of the curve.
    #[error("the public key of replica {index} is not an Ed25519 key")]
    PublicKey {
        /// Index of the replica.
        index: usize,
    },
    /// Two replicas have one public key.
    #[error("replicas {first} and {second} have the same public key")]
    Duplicate {
        /// Lower index.
        first: usize,
        /// Higher index.
        second: usize,
    },
    /// The channel key of a peer is zero, which is no secret, or the own one is not.
    #[error("the channel key of replica {index} with replica {peer} is not a key: deal the keys again")]
    ChannelKey {
        /// Index of the replica.
        index: u16,
        /// Index of the other end.
        peer: usize,
    },
    /// Two peers share one channel key, so that each could speak for the other.
    #[error("replica {index} has the same channel key with replicas {first} and {second}: deal the keys again")]
    SharedChannel {
        /// Index of the replica.
        index: u16,
        /// Lower index of the two peers.
        first: usize,
        /// Higher index of the two peers.
        second: usize,
    },
    /// Keys of groups that cannot be used.
    #[error("the group keys of replica {index} {what}: deal the keys again")]
    Groups {
        /// Index of the replica.
        index: u16,
        /// Reason, as the end of a sentence.
        what: &'static str,
    },
    /// The public half of a member's keys is not signed by its secret half, or its channel key is no key.
    #[error("the public keys of member {index} {what}: ask their operator for the file anew")]
    Unproven {
        /// Index of the member.
        index: usize,
        /// Reason, as the end of a sentence.
        what: &'static str,
    },
    /// A number of members that makes no network.
    #[error("a network has 1 to {MAX_REPLICAS} members, and {members} are listed")]
    Members {
        /// Number of members.
        members: usize,
    },
    /// Own keys that no member has.
    #[error("no member of the network has these keys: is its file the one that your public keys went into?")]
    Stranger,
    /// A dealing that cannot be used.
    #[error(
        "the dealing of member {dealer} {what}: ask its operator for it anew, or put the network together without it"
    )]
    Dealing {
        /// Index of the dealer.
        dealer: u16,
        /// Reason, as the end of a sentence.
        what: &'static str,
    },
    /// Members without a dealing.
    #[error("the dealing of member {dealer} is missing: shares of groups need that of every member")]
    Undealt {
        /// Lowest index of such a member.
        dealer: u16,
    },
    /// The operating system gives no randomness.
    #[error("the operating system gives no randomness: {what}")]
    Random {
        /// Message of the system.
        what: String,
    },
    /// The signing seed does not belong to the public key at the replica's index.
    #[error(
        "the signing seed of replica {index} does not belong to its public key: the file is of another replica set"
    )]
    Foreign {
        /// Index of the replica.
        index: u16,
    },
}

impl From<Unread> for KeyError {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Malformed(what) => Self::Malformed { what },
            Unread::Damaged => Self::Damaged,
        }
    }
}

impl core::fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("KeyFile")
            .field("index", &self.index)
            .field("replicas", &self.public_keys.len())
            .finish_non_exhaustive()
    }
}

impl KeyFile {
    /// Parses and checks a key file.
    ///
    /// # Errors
    /// The bytes are no key file, or its keys do not belong together.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeyError> {
        let file: Self = summed::read(bytes)?;
        file.check()?;
        Ok(file)
    }

    /// The file's content.
    #[must_use]
    pub fn to_json(&self) -> String {
        summed::write(self)
    }

    /// Index of the replica.
    #[must_use]
    pub const fn index(&self) -> Index {
        Index(self.index)
    }

    /// Number of replicas.
    #[must_use]
    pub const fn replicas(&self) -> usize {
        self.public_keys.len()
    }

    /// Public key of each replica, by index.
    #[must_use]
    pub fn public_keys(&self) -> &[B256] {
        &self.public_keys
    }

    /// The keys of one replica, put together.
    pub(crate) fn of(
        index: Index,
        signing_seed: B256,
        public_keys: Vec<B256>,
        channel_keys: Vec<B256>,
    ) -> Result<Self, KeyError> {
        let file = Self { version: VERSION, index: index.0, signing_seed, public_keys, channel_keys };
        file.check().map(|()| file)
    }

    pub(crate) fn signing_key(&self) -> SigningKey {
        SigningKey::from(self.signing_seed.0)
    }

    pub(crate) fn verification_keys(&self) -> Result<Vec<VerificationKey>, KeyError> {
        verification_keys(&self.public_keys)
    }

    pub(crate) fn channel_keys(&self) -> &[B256] {
        &self.channel_keys
    }

    pub(crate) fn check(&self) -> Result<(), KeyError> {
        let (index, public, channel) = (self.index, self.public_keys.len(), self.channel_keys.len());
        if self.version != VERSION {
            return Err(KeyError::Version { version: self.version });
        }
        if public != channel || public > MAX_REPLICAS || usize::from(index) >= public {
            return Err(KeyError::Count { index, public, channel });
        }
        for (second, key) in self.public_keys.iter().enumerate() {
            if let Some(first) = self.public_keys[..second].iter().position(|other| other == key) {
                return Err(KeyError::Duplicate { first, second });
            }
        }
        let keys = self.verification_keys()?;
        let own = VerificationKey::from(&self.signing_key());
        if keys[usize::from(index)] != own {
            return Err(KeyError::Foreign { index });
        }
        for (peer, key) in self.channel_keys.iter().enumerate() {
            if key.is_zero() != (peer == usize::from(index)) {
                return Err(KeyError::ChannelKey { index, peer });
            }
            if let Some(first) = self.channel_keys[..peer].iter().position(|other| other == key) {
                return Err(KeyError::SharedChannel { index, first, second: peer });
            }
        }
        Ok(())
    }
}

/// A secret seed from the operating system, for [`deal`] and [`deal_bls`](crate::deal_bls).
///
/// # Errors
/// The system gives no randomness.
pub fn fresh_seed() -> Result<[u8; 32], KeyError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| KeyError::Random { what: error.to_string() })?;
    Ok(seed)
}

/// Deals the keys of `n` replicas from a secret seed: one of [`fresh_seed`], since equal seeds give equal keys.
///
/// The dealer knows all keys. A network of several operators takes keys that each of them [makes](crate::OwnKeys).
///
/// # Errors
/// `n` is zero or above [`MAX_REPLICAS`].
pub fn deal(n: usize, seed: &[u8; 32]) -> Result<Vec<KeyFile>, KeyError> {
    if n == 0 || n > MAX_REPLICAS {
        return Err(KeyError::Count { index: 0, public: n, channel: n });
    }
    let signing = |index: usize| derive(seed, "phalanx-keys 1 signing", &[index as u64]);
    let public_keys: Vec<B256> = (0..n).map(|index| public_of(signing(index))).collect();
    let shared = |a: usize, b: usize| match a == b {
        true => B256::ZERO,
        false => derive(seed, "phalanx-keys 1 channel", &[a.min(b) as u64, a.max(b) as u64]),
    };
    let file = |index: usize| KeyFile {
        version: VERSION,
        index: index as u16,
        signing_seed: signing(index),
        public_keys: public_keys.clone(),
        channel_keys: (0..n).map(|other| shared(index, other)).collect(),
    };
    Ok((0..n).map(file).collect())
}

/// Keys that verify, from their bytes.
pub(crate) fn verification_keys(keys: &[B256]) -> Result<Vec<VerificationKey>, KeyError> {
    let parse =
        |(index, bytes): (usize, &B256)| VerificationKey::try_from(bytes.0).map_err(|_| KeyError::PublicKey { index });
    keys.iter().enumerate().map(parse).collect()
}

/// Public key of a signing seed.
pub(crate) fn public_of(signing_seed: B256) -> B256 {
    B256::from(<[u8; 32]>::from(VerificationKey::from(&SigningKey::from(signing_seed.0))))
}

/// A key for `context` and `numbers`.
pub(crate) fn derive(seed: &[u8; 32], context: &str, numbers: &[u64]) -> B256 {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    hasher.update(seed);
    for number in numbers {
        hasher.update(&number.to_be_bytes());
    }
    B256::from(*hasher.finalize().as_bytes())
}
