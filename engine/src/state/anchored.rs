//! Facts about a service's block that its own state binds: with them a node goes on from a snapshot of the state.

use super::{
    IDENTITY, Identity, SnapshotError, StateSnapshot, USED,
    encoding::{decode_name, decode_used, name_key},
};
use alloy_primitives::{B256, Bytes};
use phalanx_merkle::{Params, verify_keys};

/// Facts that the state after a service's block binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchored {
    /// Chain id, and the digest of the genesis: [`crate::chain_digest`].
    pub chain: (u64, B256),
    /// Name of the block: its execution.
    pub name: B256,
    /// Gas that the block used.
    pub gas_used: u64,
    /// Excess blob gas of the block.
    pub excess_blob_gas: u64,
    /// Blob gas that the block used.
    pub blob_gas_used: u64,
}

fn names(height: u64) -> [Vec<u8>; 3] {
    [IDENTITY.to_vec(), name_key(height).to_vec(), USED.to_vec()]
}

impl StateSnapshot {
    /// Proves the facts about the block of this state, for [`verify_anchored`]. The block must be a service's.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn prove_anchored(&self) -> Result<Bytes, SnapshotError> {
        self.prove(&self.read()?, &names(self.height()), Vec::new())
    }
}

/// Verifies the facts about the block at `height` by a proof from [`StateSnapshot::prove_anchored`] under its state root.
/// `None` if the proof does not show them.
pub fn verify_anchored(params: &Params, root: B256, height: u64, proof: &[u8]) -> Option<Anchored> {
    let mut values = [None; 3];
    verify_keys(params, &root.0, &names(height), proof, |index, value| values[index] = value).ok()?;
    let [chain, name, used] = values;
    let (chain, (at, name)): (Identity, _) = (decode_name(chain?)?, decode_name(name?)?);
    let [used_at, gas_used, excess_blob_gas, blob_gas_used] = decode_used(used?)?;
    let anchored = Anchored { chain, name, gas_used, excess_blob_gas, blob_gas_used };
    (at == height && used_at == height).then_some(anchored)
}
