//! Key files of groups: the secret shares of one replica, and the public keys of all shares and groups.

use super::field::{evaluate, reduce};
use crate::{
    file::{KeyError, KeyFile, deal},
    summed,
};
use alloy_primitives::{B256, Bytes, U256};
use blst::min_sig::{PublicKey, SecretKey};
use phalanx_bft::{Group, MAX_REPLICAS};
use serde::{Deserialize, Serialize};

/// Version of the format.
const VERSION: u32 = 1;

/// Groups with shares of their own, in the order of the file.
pub(super) const SHARED: [Group; 3] = [Group::Fast, Group::Slow, Group::State];

/// Keys of one replica with its shares, as the file holds them: JSON, values in hex.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlsFile {
    version: u32,
    /// Keys of signatures and channels.
    keys: KeyFile,
    /// Maximum number of faulty replicas. n is that of the keys, c follows.
    faulty: u16,
    /// Keys of σ, τ and π.
    groups: Vec<GroupKeys>,
}

/// Keys of a group.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupKeys {
    /// Share of the replica. Secret.
    pub(super) secret: B256,
    /// Key that the group's signatures are verified with.
    pub(super) public: Bytes,
    /// Key that each replica's shares are verified with, by index.
    pub(super) shares: Vec<Bytes>,
}

impl core::fmt::Debug for BlsFile {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BlsFile").field("keys", &self.keys).field("faulty", &self.faulty).finish_non_exhaustive()
    }
}

impl BlsFile {
    /// Parses and checks a key file.
    ///
    /// # Errors
    /// The bytes are no key file, or its keys do not belong together.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeyError> {
        let file: Self = summed::read(bytes)?;
        super::Bls::new(&file)?;
        Ok(file)
    }

    /// The file's content.
    #[must_use]
    pub fn to_json(&self) -> String {
        summed::write(self)
    }

    /// Keys of signatures and channels.
    #[must_use]
    pub const fn keys(&self) -> &KeyFile {
        &self.keys
    }

    /// Maximum number of faulty replicas.
    #[must_use]
    pub const fn faulty(&self) -> usize {
        self.faulty as usize
    }

    /// Public key of a group with shares of its own, 96 bytes. A client needs that of [`Group::State`], and no other.
    #[must_use]
    pub fn public_key(&self, group: Group) -> Option<&Bytes> {
        let at = SHARED.iter().position(|known| *known == group)?;
        self.groups.get(at).map(|keys| &keys.public)
    }

    /// Signs bytes with the share of a group's key. [`Bls::new`](super::Bls::new) checks all keys first, which this does not.
    ///
    /// # Errors
    /// The file has no such share.
    pub fn share(&self, group: Group, bytes: &[u8]) -> Result<Bytes, KeyError> {
        let index = self.keys.index().0;
        let at = SHARED.iter().position(|known| *known == group.shares());
        let keys = at.and_then(|at| self.groups.get(at)).ok_or(KeyError::Groups { index, what: "are incomplete" })?;
        let secret = SecretKey::from_bytes(&keys.secret.0)
            .map_err(|_| KeyError::Groups { index, what: "have no secret share" })?;
        Ok(secret.sign(bytes, super::scheme::DOMAIN, &[]).to_bytes().into())
    }

    /// The keys of one replica, put together.
    pub(super) fn of(keys: KeyFile, faulty: u16, groups: Vec<GroupKeys>) -> Result<Self, KeyError> {
        let file = Self { version: VERSION, keys, faulty, groups };
        super::Bls::new(&file).map(|_| file)
    }

    pub(super) fn check(&self) -> Result<(), KeyError> {
        if self.version != VERSION {
            return Err(KeyError::Version { version: self.version });
        }
        self.keys.check()?;
        let (n, f) = (self.keys.replicas(), self.faulty());
        if !fits(n, f) {
            return Err(KeyError::Groups { index: self.keys.index().0, what: "are for another number of replicas" });
        }
        if self.groups.len() != SHARED.len() || self.groups.iter().any(|group| group.shares.len() != n) {
            return Err(KeyError::Groups { index: self.keys.index().0, what: "are incomplete" });
        }
        Ok(())
    }

    pub(super) fn group(&self, at: usize) -> &GroupKeys {
        &self.groups[at]
    }
}

/// Returns true for n = 3f+2c+1 replicas.
pub(super) const fn fits(n: usize, f: usize) -> bool {
    n <= MAX_REPLICAS && n > 3 * f && (n - 3 * f - 1).is_multiple_of(2)
}

/// Number of shares that a group needs among `n` replicas with `f` faulty ones, n = 3f+2c+1.
pub(super) const fn threshold(group: Group, n: usize, f: usize) -> usize {
    let c = (n - 3 * f - 1) / 2;
    match group {
        Group::All => n,
        Group::Fast => 3 * f + c + 1,
        Group::Slow => 2 * f + c + 1,
        Group::State => f + 1,
    }
}

/// Deals the keys of `n` = 3f+2c+1 replicas from a secret seed, shares of groups included. Equal seeds give equal keys: for tests and
/// benchmarks on one machine.
///
/// The dealer knows all keys. In a network of several operators each of them [deals](super::Dealing).
///
/// # Errors
/// `n` is zero, above [`MAX_REPLICAS`], or not 3f+2c+1.
pub fn deal_bls(n: usize, f: usize, seed: &[u8; 32]) -> Result<Vec<BlsFile>, KeyError> {
    if !fits(n, f) {
        return Err(KeyError::Groups { index: 0, what: "need n = 3f+2c+1 replicas, at most 256" });
    }
    let mut dealt = Vec::new();
    for group in SHARED {
        let coefficients =
            coefficients(blake3::Hasher::new_derive_key("phalanx-keys 1 shares").update(seed), group, (n, f));
        let secrets: Vec<SecretKey> =
            (1..=n as u64).map(|place| secret(evaluate(&coefficients, place))).collect::<Result<_, _>>()?;
        let public: Bytes = secret(coefficients[0])?.sk_to_pk().to_bytes().into();
        let shares: Vec<Bytes> = secrets.iter().map(|secret| secret.sk_to_pk().to_bytes().into()).collect();
        dealt.push((secrets, public, shares));
    }
    let file = |(index, keys): (usize, KeyFile)| {
        let of = |(secrets, public, shares): &(Vec<SecretKey>, Bytes, Vec<Bytes>)| GroupKeys {
            secret: B256::from(secrets[index].to_bytes()),
            public: public.clone(),
            shares: shares.clone(),
        };
        BlsFile { version: VERSION, keys, faulty: f as u16, groups: dealt.iter().map(of).collect() }
    };
    Ok(deal(n, seed)?.into_iter().enumerate().map(file).collect())
}

/// Coefficients of the polynomial whose values are a group's shares, from what a hasher was given, which is secret.
pub(super) fn coefficients(secret: &blake3::Hasher, group: Group, (n, f): (usize, usize)) -> Vec<U256> {
    let coefficient = |at: u64| {
        let mut bytes = [0; 64];
        secret.clone().update(&[group as u8]).update(&at.to_be_bytes()).finalize_xof().fill(&mut bytes);
        reduce(&bytes)
    };
    (0..threshold(group, n, f) as u64).map(coefficient).collect()
}

/// A secret key; zero is none, and as likely as a guess of one.
pub(super) fn secret(value: U256) -> Result<SecretKey, KeyError> {
    let key = SecretKey::from_bytes(&value.to_be_bytes::<32>());
    key.map_err(|_| KeyError::Groups { index: 0, what: "have a share of zero: take another seed" })
}

/// A public key that is a point of the group.
pub(super) fn public(index: u16, bytes: &[u8]) -> Result<PublicKey, KeyError> {
    PublicKey::key_validate(bytes).map_err(|_| KeyError::Groups { index, what: "have a public key that is no point" })
}
