//! Reads of stored accounts through a snapshot, for views, proofs and the pool.

use crate::state::{StateError, account, encoding::StoredAccount};
use alloy_primitives::{Address, KECCAK256_EMPTY};
use phalanx_engine_api::{AccountView, Failure, FatalCause, RetryCause};
use phalanx_merkle::{Reader, Snapshot};

/// Opens a snapshot for reading.
pub(super) fn read(view: &Snapshot) -> Result<Reader<'_>, Failure> {
    // The block has left the history, or lost.
    view.read().map_err(|_| Failure::Retry(RetryCause::Busy))
}

/// Failure of damaged state.
pub(super) fn corrupt(error: StateError) -> Failure {
    Failure::Fatal(FatalCause::Corrupt(error.to_string()))
}

/// Reads an account as it is stored, if it exists or is remembered.
pub(super) fn stored(reader: &Reader<'_>, address: &Address) -> Result<Option<StoredAccount>, Failure> {
    reader.get(address.as_slice()).map(|bytes| account(address, bytes)).transpose().map_err(corrupt)
}

/// Converts a stored account to the caller's view.
pub(super) fn shown(account: &StoredAccount) -> Option<AccountView> {
    let StoredAccount { nonce, balance, code_hash, .. } = *account;
    account.exists.then(|| AccountView { balance, nonce, code_hash: code_hash.unwrap_or(KECCAK256_EMPTY) })
}
