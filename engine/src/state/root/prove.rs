//! Snapshots as the trie reads them, and proofs under Ethereum's root, as `eth_getProof` returns them (EIP-1186).

use super::{Before, Commitment};
use crate::state::{SnapshotError, StateSnapshot};
use alloy_primitives::{Address, B256, U256};
use phalanx_trie::{Account, AccountProof, Error, Values};
use revm::state::AccountInfo;

impl Values for StateSnapshot {
    type Error = SnapshotError;

    fn account(&self, address: &Address) -> Result<Option<Account>, Self::Error> {
        let found = Self::account(self, address)?;
        Ok(found.map(|AccountInfo { nonce, balance, code_hash, .. }| Account { nonce, balance, code_hash }))
    }

    fn slot(&self, address: &Address, slot: &B256) -> Result<U256, Self::Error> {
        self.storage(address, &U256::from_be_bytes(slot.0))
    }
}

impl Before for StateSnapshot {
    fn incarnation(&self, address: &Address) -> Result<u32, Self::Error> {
        self.stored_incarnation(address)
    }
}

impl StateSnapshot {
    /// Proves an account, present or absent, and slots of it under [`Self::root`], if that is Ethereum's root; `None` if the chain
    /// reports the root of its twigs, under which [`Self::prove_account`] and [`Self::prove_slot`] prove.
    ///
    /// Takes some ten microseconds, and some hundred where large blocks have followed; waits for a block that is being merkleized.
    ///
    /// # Errors
    /// [`SnapshotError`]; `NotWritten` on a thread of a rayon pool while a block is being merkleized.
    pub fn prove_ethereum(&self, address: &Address, slots: &[U256]) -> Result<Option<AccountProof>, SnapshotError> {
        let Commitment::Ethereum(versions) = self.views.commitment() else { return Ok(None) };
        let version = versions.version(self.view.block()).ok_or_else(|| gone(self))?;
        let slots: Vec<B256> = slots.iter().map(|slot| B256::from(*slot)).collect();
        let proof = versions.read(|trie| trie.prove(version, address, &slots, self));
        proof.ok_or(SnapshotError::NotWritten)?.map(Some).map_err(|error| unproven(self, error))
    }
}

/// Error of a state whose block has left the trie.
pub(super) fn gone(state: &StateSnapshot) -> SnapshotError {
    state.failure(phalanx_merkle::Error::Gone { block: state.view.block() })
}

/// Reason for an error of the trie.
pub(super) fn unproven(state: &StateSnapshot, error: Error<SnapshotError>) -> SnapshotError {
    match error {
        Error::Values(error) => error,
        // It was dropped since.
        Error::Unknown { .. } => gone(state),
        error => SnapshotError::Corrupt(error.to_string()),
    }
}
