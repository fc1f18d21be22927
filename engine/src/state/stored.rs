//! Stored values, decoded, or the error that names what does not decode.

use super::encoding::{StoredAccount, decode_account, decode_slot};
use crate::model::Error;
use alloy_primitives::{Address, U256};
use revm::database_interface::DBErrorMarker;

/// A stored value that the engine did not write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state store holds a value that the engine did not write: {0}")]
pub struct StateError(pub(crate) String);

impl DBErrorMarker for StateError {}

impl From<StateError> for Error {
    fn from(error: StateError) -> Self {
        Self::Corrupt { what: error.0 }
    }
}

pub(crate) fn account(address: &Address, bytes: &[u8]) -> Result<StoredAccount, StateError> {
    decode_account(bytes).ok_or_else(|| no_account(address))
}

#[cold]
pub(super) fn no_account(address: &Address) -> StateError {
    StateError(format!("account {address}"))
}

#[inline]
pub(super) fn word(address: &Address, slot: &U256, bytes: &[u8]) -> Result<U256, StateError> {
    decode_slot(bytes).ok_or_else(|| no_slot(address, slot))
}

#[cold]
fn no_slot(address: &Address, slot: &U256) -> StateError {
    StateError(format!("slot {slot} of {address}"))
}
