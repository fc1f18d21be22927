//! Epochs of a network: the members before, and the digest by which members sign the next network.

use super::{Authentication, NetConfig};
use alloy_primitives::B256;
use phalanx_bft::{Domain, Index, QuorumError, Quorums};
use phalanx_host::{Boundary, HostConfig};
use phalanx_keys::{Ed25519, KeyError, Scheme, Simulated};
use serde::{Deserialize, Serialize};

/// Members of the epoch before, as far as others need them to check where that epoch has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Before {
    /// Maximum number of faulty replicas.
    pub faults: u16,
    /// Ed25519 keys of the members' signatures, by index.
    pub keys: Vec<B256>,
}

impl NetConfig {
    /// Digest of everything that the members of a network agree on, with the keys of their signatures by index: what the members before sign
    /// to have it come next.
    #[must_use]
    pub fn digest(&self, keys: &[B256]) -> B256 {
        let mut hasher = blake3::Hasher::new_derive_key("phalanx-net 1 network");
        let mut put = |part: &[u8]| {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part);
        };
        self.agreed().iter().for_each(|part| put(part.as_bytes()));
        self.replicas.iter().for_each(|member| put(format!("{} {}", member.peers, member.clients).as_bytes()));
        keys.iter().for_each(|key| put(key.as_slice()));
        B256::new(*hasher.finalize().as_bytes())
    }

    /// Returns true if the members before this network have certified this end of their epoch.
    #[must_use]
    pub fn follows(&self, boundary: &Boundary) -> bool {
        let earlier = self.earlier().ok().flatten();
        earlier.is_some_and(|earlier| boundary.check(&earlier.host, &*earlier.scheme).is_some())
    }

    /// Constants of the epoch before, and a verifier of what its members have signed; `None` in the first one.
    pub(crate) fn earlier(&self) -> Result<Option<Earlier>, EarlierError> {
        let Some(before) = &self.before else { return Ok(None) };
        let mut host = self.host(0)?;
        host.quorums = Quorums::new(before.keys.len(), before.faults.into())?;
        host.domain = Domain { epoch: self.epoch.saturating_sub(1), ..self.domain() };
        let scheme: Box<dyn Scheme> = match self.authentication {
            Authentication::None => Box::new(Simulated::new(Index(0), 64)),
            Authentication::Mac | Authentication::Ed25519 => Box::new(Ed25519::verifier(&before.keys)?),
        };
        Ok(Some(Earlier { host, scheme }))
    }
}

/// The epoch before, for those who check what its members have signed.
#[derive(Debug)]
pub(crate) struct Earlier {
    pub(crate) host: HostConfig,
    pub(crate) scheme: Box<dyn Scheme>,
}

/// Reason why the members before cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EarlierError {
    #[error(transparent)]
    Quorum(#[from] QuorumError),
    #[error(transparent)]
    Keys(#[from] KeyError),
}
