//! The remote state: that of another node's chain after one of its blocks, from which a chain goes on. Keys that the store lacks are
//! read there when they are needed.
//!
//! What a block changes is stored, also a slot that becomes zero: else the remote word would be read for it.

use super::{encoding::StoredAccount, stored::StateError};
use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::Mutex;
use phalanx_paralyze::StateKey;
use std::sync::Arc;

/// State that a chain goes on from, read from all threads. It never changes.
///
/// The engine holds no lock while it reads, and reads many keys in one call where a block names them before it runs.
pub trait RemoteState: core::fmt::Debug + Send + Sync {
    /// Height of the block that the state is after, which is the first one of the chain above it.
    fn height(&self) -> u64;

    /// Reads the values of keys, in order: [`RemoteValue::Account`] for [`StateKey::Basic`], [`RemoteValue::Word`] for
    /// [`StateKey::Slot`]. [`StateKey::Code`] is not asked for.
    ///
    /// # Errors
    /// [`RemoteError`]: no value is known.
    fn read(&self, keys: &[StateKey]) -> Result<Vec<RemoteValue>, RemoteError>;

    /// Value of a key that [`Self::read`] would return without a wait; `None` if it would have to wait.
    ///
    /// # Errors
    /// [`RemoteError`].
    fn at_hand(&self, key: &StateKey) -> Result<Option<RemoteValue>, RemoteError>;

    /// Code with a hash that an account has named; `None` if there is none.
    ///
    /// # Errors
    /// [`RemoteError`].
    fn code(&self, hash: &B256) -> Result<Option<Bytes>, RemoteError>;

    /// Hash of a block at or below [`Self::height`].
    ///
    /// # Errors
    /// [`RemoteError`].
    fn block_hash(&self, number: u64) -> Result<B256, RemoteError>;
}

/// Value in a [`RemoteState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteValue {
    /// An account; `None` if it does not exist.
    Account(Option<RemoteAccount>),
    /// Word of a slot.
    Word(U256),
}

/// Account in a [`RemoteState`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteAccount {
    /// Number of transactions sent, or of contracts created.
    pub nonce: u64,
    /// Balance, in wei.
    pub balance: U256,
    /// Hash of the code; `None` without code.
    pub code_hash: Option<B256>,
}

/// Reason for which a [`RemoteState`] gives no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RemoteError(pub String);

impl From<RemoteError> for StateError {
    fn from(error: RemoteError) -> Self {
        Self(error.0)
    }
}

impl RemoteAccount {
    pub(super) const fn stored(self) -> StoredAccount {
        let Self { nonce, balance, code_hash } = self;
        StoredAccount { exists: true, nonce, balance, code_hash, incarnation: 0 }
    }
}

/// Account of a remote state.
///
/// # Errors
/// It has no answer, or one of another kind.
pub(super) fn remote_account(
    remote: &dyn RemoteState,
    address: &Address,
) -> Result<Option<RemoteAccount>, RemoteError> {
    match remote.read(&[StateKey::Basic(*address)])?[..] {
        [RemoteValue::Account(account)] => Ok(account),
        _ => Err(other_kind()),
    }
}

/// Word of a slot of a remote state.
///
/// # Errors
/// It has no answer, or one of another kind.
pub(super) fn remote_word(remote: &dyn RemoteState, address: &Address, slot: &U256) -> Result<U256, RemoteError> {
    match remote.read(&[StateKey::Slot(*address, *slot)])?[..] {
        [RemoteValue::Word(word)] => Ok(word),
        _ => Err(other_kind()),
    }
}

pub(super) fn other_kind() -> RemoteError {
    RemoteError("the remote state answers with another kind of value".into())
}

/// A remote state with its first failure: what was executed meanwhile is worth nothing.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    state: Arc<dyn RemoteState>,
    failed: Arc<Mutex<Option<RemoteError>>>,
}

impl Remote {
    pub(crate) fn new(state: Arc<dyn RemoteState>) -> Self {
        Self { state, failed: Arc::default() }
    }

    pub(crate) const fn state(&self) -> &Arc<dyn RemoteState> {
        &self.state
    }

    /// Takes the first failure.
    pub(crate) fn take_failure(&self) -> Option<RemoteError> {
        self.failed.lock().take()
    }

    /// Reads, and notes a failure.
    pub(super) fn ask<T>(
        &self,
        read: impl FnOnce(&dyn RemoteState) -> Result<T, RemoteError>,
    ) -> Result<T, StateError> {
        read(&*self.state).map_err(|error| {
            self.failed.lock().get_or_insert_with(|| error.clone());
            error.into()
        })
    }

    /// Hash of a block below the chain; zero above it, and with a failure that is noted.
    pub(crate) fn hash(&self, number: u64) -> B256 {
        if number > self.state.height() {
            return B256::ZERO;
        }
        self.ask(|remote| remote.block_hash(number)).unwrap_or_default()
    }
}
