//! Snapshots of states, readable from any thread beside the engine's work.

use super::{Service, failure::unread, kept::Kept};
use crate::state::StateSnapshot;
use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes};
use phalanx_engine_api::{AccountView, Failure, ReadState, StateView, ViewAt};
use std::sync::Arc;

impl Service {
    /// Takes a snapshot of a state, with code: calls, traces and proofs run on it. A committed state is readable while
    /// a rewind can reach it, a speculative one until it loses.
    ///
    /// # Errors
    /// `Retry` if the block is not executed, `Pruned` below the history.
    pub fn snapshot(&self, at: ViewAt) -> Result<StateSnapshot, Failure> {
        let Kept { view, hash, .. } = self.kept(at)?;
        let snapshot = self.shared.views.of(view);
        snapshot.map(|snapshot| snapshot.with_hash(hash)).map_err(|error| super::failure::failure(&error))
    }

    /// Hash of a block: of its header, if the chain's blocks are executed as a whole; else the name of its execution.
    ///
    /// # Errors
    /// The errors of [`Self::snapshot`].
    pub fn block_hash(&self, at: ViewAt) -> Result<B256, Failure> {
        self.kept(at).map(|kept| kept.hash)
    }

    /// Header of a block with its outcome; `None` if the chain's blocks are transactions alone, or it was executed before a restart.
    ///
    /// # Errors
    /// The errors of [`Self::snapshot`].
    pub fn header(&self, at: ViewAt) -> Result<Option<Arc<Header>>, Failure> {
        self.kept(at).map(|kept| kept.header)
    }
}

impl ReadState for Service {
    /// Takes a snapshot: see [`Service::snapshot`].
    fn view(&self, at: ViewAt) -> Result<Arc<dyn StateView>, Failure> {
        Ok(Arc::new(self.snapshot(at)?))
    }
}

impl StateView for StateSnapshot {
    fn height(&self) -> u64 {
        Self::height(self)
    }

    fn root(&self) -> B256 {
        Self::root(self)
    }

    fn account(&self, address: Address) -> Result<Option<AccountView>, Failure> {
        let info = Self::account(self, &address).map_err(unread)?;
        Ok(info.map(|info| AccountView { balance: info.balance, nonce: info.nonce, code_hash: info.code_hash }))
    }

    fn storage(&self, address: Address, slot: B256) -> Result<B256, Failure> {
        Ok(Self::storage(self, &address, &slot.into()).map_err(unread)?.into())
    }

    fn code(&self, hash: B256) -> Result<Option<Bytes>, Failure> {
        Ok(Self::code(self, &hash).map_err(unread)?.map(|code| code.original_bytes()))
    }
}
