//! Keys of a replica: for single signatures, or with shares of groups.

use super::error::ReplicaError;
use crate::{
    config::{Authentication, NetConfig, ProtocolName},
    wire::Identity,
};
use alloy_primitives::B256;
use phalanx_bft::Group;
use phalanx_keys::{Bls, BlsFile, KeyFile, Scheme, Simulated};
use std::sync::Arc;

/// Keys of a replica.
#[derive(Clone, Debug)]
pub enum ReplicaKeys {
    /// Keys of signatures and channels.
    Single(KeyFile),
    /// With shares of groups, as SBFT needs them.
    Groups(BlsFile),
}

impl From<KeyFile> for ReplicaKeys {
    fn from(keys: KeyFile) -> Self {
        Self::Single(keys)
    }
}

impl From<BlsFile> for ReplicaKeys {
    fn from(keys: BlsFile) -> Self {
        Self::Groups(keys)
    }
}

impl ReplicaKeys {
    /// Keys of signatures and channels.
    #[must_use]
    pub const fn single(&self) -> &KeyFile {
        match self {
            Self::Single(keys) => keys,
            Self::Groups(groups) => groups.keys(),
        }
    }

    /// Checks that the keys are for the network of a configuration.
    pub(super) fn check(&self, config: &NetConfig) -> Result<(), ReplicaError> {
        let (keys, replicas) = (self.single().replicas(), config.replicas.len());
        if keys != replicas {
            return Err(ReplicaError::Count { keys, replicas });
        }
        match self {
            Self::Groups(groups) if groups.faulty() != usize::from(config.faults) => {
                Err(ReplicaError::Faults { keys: groups.faulty(), faults: config.faults.into() })
            }
            Self::Single(_) if config.protocol == ProtocolName::Sbft => Err(ReplicaError::Shares),
            _ => Ok(()),
        }
    }

    /// Hash of everything public: equal at all replicas that can work together.
    pub(super) fn public(&self) -> B256 {
        let mut hasher = blake3::Hasher::new_derive_key("phalanx-net 1 public keys");
        for key in self.single().public_keys() {
            hasher.update(key.as_slice());
        }
        if let Self::Groups(groups) = self {
            for key in [Group::Fast, Group::Slow, Group::State].into_iter().filter_map(|of| groups.public_key(of)) {
                hasher.update(key);
            }
        }
        B256::new(*hasher.finalize().as_bytes())
    }

    /// The scheme of statements.
    pub(super) fn scheme(&self, identity: &Identity) -> Result<Arc<dyn Scheme>, ReplicaError> {
        Ok(match (identity.authentication, self) {
            (Authentication::None, _) => Arc::new(Simulated::new(identity.me, 64)),
            (_, Self::Single(_)) => Arc::clone(&identity.signer) as Arc<dyn Scheme>,
            (_, Self::Groups(groups)) => Arc::new(Bls::new(groups)?),
        })
    }
}
