//! Facts about a service's block that its own state binds: with them a node goes on from a snapshot of the state.

use super::{
    IDENTITY, Identity, LAST, SnapshotError, StateSnapshot,
    encoding::{decode_last, decode_name},
};
use alloy_primitives::{B256, Bytes};
use phalanx_merkle::{Params, verify_keys};

/// Facts that the state after a service's block binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchored {
    /// Chain id, and the digest of the genesis: [`crate::chain_digest`].
    pub chain: (u64, B256),
    /// Name of the block's execution.
    pub name: B256,
    /// Hash of the block's header with a state root of zero; zero if the chain's blocks are transactions alone.
    pub header: B256,
}

fn names() -> [Vec<u8>; 2] {
    [IDENTITY.to_vec(), LAST.to_vec()]
}

impl StateSnapshot {
    /// Proves the facts about the block of this state, for [`verify_anchored`]. The block must be a service's.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn prove_anchored(&self) -> Result<Bytes, SnapshotError> {
        self.prove(&self.read()?, &names(), Vec::new())
    }
}

/// Verifies the facts about the block at `height` by a proof from [`StateSnapshot::prove_anchored`] under its state root.
/// `None` if the proof does not show them.
pub fn verify_anchored(params: &Params, root: B256, height: u64, proof: &[u8]) -> Option<Anchored> {
    let mut values = [None; 2];
    verify_keys(params, &root.0, &names(), proof, |index, value| values[index] = value).ok()?;
    let [chain, last] = values;
    let chain: Identity = decode_name(chain?)?;
    let (at, name, header) = decode_last(last?)?;
    (at == height).then_some(Anchored { chain, name, header })
}
