//! The hash functions that a state can be committed with.

use core::fmt;

use phalanx_hash_lanes::{sha256, sha256_many};
use sha3::Digest as _;

/// Digest of 32 bytes.
pub type Hash = [u8; 32];

/// Digest of a subtree without entries. It is no hash: a node of two empty children is empty, and no entries that hash
/// to it can be found.
pub const EMPTY: Hash = [0; 32];

/// Hash function of a state, chosen at genesis and bound into every root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HashFn {
    /// SHA-256: fast with the CPU's instructions, cheap as an EVM precompile and in zero-knowledge machines.
    #[default]
    Sha256 = 1,
    /// Keccak-256: the cheapest to verify in an EVM contract, about five times slower natively.
    Keccak256 = 2,
    /// BLAKE3: for closed deployments that verify natively only.
    Blake3 = 3,
}

impl fmt::Display for HashFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sha256 => "sha256",
            Self::Keccak256 => "keccak256",
            Self::Blake3 => "blake3",
        })
    }
}

impl HashFn {
    /// Hash function with this id on disk and in [`Params`](crate::Params).
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            1 => Some(Self::Sha256),
            2 => Some(Self::Keccak256),
            3 => Some(Self::Blake3),
            _ => None,
        }
    }

    /// Digest of `parts`, one after the other.
    ///
    /// Crate-private on purpose: every public digest starts with a domain byte of its own.
    #[inline]
    pub(crate) fn digest(self, parts: &[&[u8]]) -> Hash {
        match self {
            Self::Sha256 => sha256(parts),
            Self::Keccak256 => {
                let mut hasher = sha3::Keccak256::new();
                parts.iter().for_each(|part| hasher.update(part));
                hasher.finalize().into()
            }
            Self::Blake3 => {
                let mut hasher = blake3::Hasher::new();
                parts.iter().for_each(|part| {
                    hasher.update(part);
                });
                *hasher.finalize().as_bytes()
            }
        }
    }

    /// Digests of messages given in parts: `put` gets each digest with the message's number, in any order. Faster than
    /// one at a time where [`sha256_many`] is.
    #[inline]
    pub(crate) fn digest_many<'m, const PARTS: usize>(
        self,
        messages: impl Iterator<Item = (usize, [&'m [u8]; PARTS])>,
        mut put: impl FnMut(usize, Hash),
    ) {
        match self {
            Self::Sha256 => sha256_many(messages, put),
            Self::Keccak256 | Self::Blake3 => messages.for_each(|(number, parts)| put(number, self.digest(&parts))),
        }
    }
}
