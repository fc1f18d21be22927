//! The state after a block as a value: readable and provable from any thread while later blocks run.

use super::{
    Codes, Commitment, RemoteAccount, RemoteError, RemoteState, StateError, account,
    encoding::{StoredAccount, decode_name, decode_slot, name_key, slot_key},
    remote::{remote_account, remote_word},
};
use crate::model::{Error, RootKind};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use phalanx_merkle::{Exporter, ProvenTwigs, Reader, Snapshot};
use phalanx_paralyze::StateKey;
use revm::{
    DatabaseRef,
    database_interface::DBErrorMarker,
    state::{AccountInfo, Bytecode},
};
use std::sync::Arc;

/// Reason for which a [`StateSnapshot`] gives no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The block has left the history. Its state is not kept any more.
    #[error("the state at height {height} is pruned: the oldest is that at height {oldest}")]
    Pruned {
        /// Height of the block.
        height: u64,
        /// Lowest height whose state is kept.
        oldest: u64,
    },
    /// The block was dropped or rewound.
    #[error("the block at height {height} was dropped or rewound")]
    Lost {
        /// Height of the block.
        height: u64,
    },
    /// The last block is being written, and the proof needs it: ask again.
    #[error("the last block is being written: ask again")]
    NotWritten,
    /// The remote state has no answer for now.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// Stored data cannot be read.
    #[error("{0}")]
    Corrupt(String),
}

impl DBErrorMarker for SnapshotError {}

impl From<StateError> for SnapshotError {
    fn from(error: StateError) -> Self {
        Self::Corrupt(error.to_string())
    }
}

/// Snapshots of blocks, with the codes and roots that the store lacks.
#[derive(Clone, Debug)]
pub(crate) struct Views {
    codes: Arc<Codes>,
    commitment: Commitment,
    remote: Option<Arc<dyn RemoteState>>,
}

impl Views {
    pub(crate) const fn new(codes: Arc<Codes>, commitment: Commitment, remote: Option<Arc<dyn RemoteState>>) -> Self {
        Self { codes, commitment, remote }
    }

    /// Reads accounts from the remote state in one call, if there is one: it has them at hand then.
    ///
    /// # Errors
    /// The remote state has no answer for now.
    pub(crate) fn read_ahead(&self, addresses: impl Iterator<Item = Address>) -> Result<(), SnapshotError> {
        if let Some(remote) = &self.remote {
            let keys: Vec<StateKey> = addresses.map(StateKey::Basic).collect();
            remote.read(&keys)?;
        }
        Ok(())
    }

    /// Source of the blocks' roots.
    pub(super) const fn commitment(&self) -> &Commitment {
        &self.commitment
    }

    /// The state after a block.
    ///
    /// # Errors
    /// The block is gone.
    pub(crate) fn of(&self, view: Snapshot) -> Result<StateSnapshot, Error> {
        StateSnapshot::new(view, self.clone())
    }
}

/// The state after a block, committed or not. It does not change, and is read from any thread while other blocks run:
/// a committed state for as long as a rewind can reach it, any other until its block is dropped.
///
/// A [`DatabaseRef`] with code: calls, traces and inspectors run on it. Cloning costs a few reference counts.
#[derive(Clone, Debug)]
pub struct StateSnapshot {
    height: u64,
    root: B256,
    store_root: B256,
    pub(super) view: Snapshot,
    pub(super) views: Views,
    /// Hash of the block, which its own state cannot hold; `None` if it is not known.
    hash: Option<B256>,
}

impl StateSnapshot {
    fn new(view: Snapshot, views: Views) -> Result<Self, Error> {
        let block = view.block();
        let reader = view.read()?;
        let height = reader.height().unwrap_or_default();
        let store_root = reader.root();
        let root = views.commitment.root(block, store_root).ok_or(phalanx_merkle::Error::Gone { block })?;
        drop(reader);
        Ok(Self { height, root, store_root: store_root.into(), view, views, hash: None })
    }

    /// Adds the hash of the block, for BLOCKHASH in its child.
    pub(crate) fn with_hash(self, hash: B256) -> Self {
        Self { hash: Some(hash), ..self }
    }

    /// Height of the block.
    #[must_use]
    pub const fn height(&self) -> u64 {
        self.height
    }

    /// Root of the state, of the kind that the chain reports.
    #[must_use]
    pub const fn root(&self) -> B256 {
        self.root
    }

    /// Root of the store, to which [`Self::prove_account`] and its like lead.
    #[must_use]
    pub const fn store_root(&self) -> B256 {
        self.store_root
    }

    /// Kind of the root that the chain reports.
    #[must_use]
    pub const fn root_kind(&self) -> RootKind {
        self.views.commitment().kind()
    }

    pub(super) fn read(&self) -> Result<Reader<'_>, SnapshotError> {
        self.view.read().map_err(|error| self.failure(error))
    }

    /// Reason for an error of the store.
    pub(super) fn failure(&self, error: phalanx_merkle::Error) -> SnapshotError {
        let height = self.height;
        match (error, self.view.oldest_height()) {
            (phalanx_merkle::Error::Gone { .. }, Some(oldest)) if height < oldest => {
                SnapshotError::Pruned { height, oldest }
            }
            (phalanx_merkle::Error::Gone { .. }, _) => SnapshotError::Lost { height },
            (phalanx_merkle::Error::NotWritten, _) => SnapshotError::NotWritten,
            (error, _) => SnapshotError::Corrupt(error.to_string()),
        }
    }

    /// Checks that what seems absent is. A state on disk may leave the history while it is read.
    fn readable(&self, reader: &Reader<'_>, found: bool) -> Result<(), SnapshotError> {
        if found { Ok(()) } else { reader.check().map_err(|error| self.failure(error)) }
    }

    fn stored(&self, reader: &Reader<'_>, address: &Address) -> Result<Option<StoredAccount>, SnapshotError> {
        let bytes = reader.get(address.as_slice());
        self.readable(reader, bytes.is_some())?;
        Ok(bytes.map(|bytes| account(address, bytes)).transpose()?)
    }

    /// Nonce, balance and code hash of an account; `None` if it does not exist. The code is not loaded.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn account(&self, address: &Address) -> Result<Option<AccountInfo>, SnapshotError> {
        let stored = self.stored(&self.read()?, address)?;
        let stored = match (stored, &self.views.remote) {
            (None, Some(remote)) => remote_account(&**remote, address)?.map(RemoteAccount::stored),
            (stored, _) => stored,
        };
        Ok(stored.filter(|account| account.exists).map(StoredAccount::into_info))
    }

    /// Word of storage; zero if it is not stored.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn storage(&self, address: &Address, slot: &U256) -> Result<U256, SnapshotError> {
        let reader = self.read()?;
        let incarnation = self.stored(&reader, address)?.map_or(0, |account| account.incarnation);
        let bytes = reader.get(slot_key(address, slot, incarnation).as_slice());
        self.readable(&reader, bytes.is_some())?;
        if let (None, 0, Some(remote)) = (bytes, incarnation, &self.views.remote) {
            drop(reader);
            return Ok(remote_word(&**remote, address, slot)?);
        }
        let Some(bytes) = bytes else { return Ok(U256::ZERO) };
        decode_slot(bytes).ok_or_else(|| StateError(format!("slot {slot} of {address}")).into())
    }

    /// Number of times that the storage of an account was emptied.
    pub(super) fn stored_incarnation(&self, address: &Address) -> Result<u32, SnapshotError> {
        Ok(self.stored(&self.read()?, address)?.map_or(0, |account| account.incarnation))
    }

    /// Stored value of a key.
    pub(super) fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>, SnapshotError> {
        let reader = self.read()?;
        let bytes = reader.get(key);
        self.readable(&reader, bytes.is_some())?;
        Ok(bytes.map(<[u8]>::to_vec))
    }

    /// Code with this hash; `None` if no contract has it.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn code(&self, hash: &B256) -> Result<Option<Bytecode>, SnapshotError> {
        if *hash == KECCAK256_EMPTY {
            return Ok(Some(Bytecode::default()));
        }
        if let Some(code) = self.views.codes.code(hash) {
            return Ok(Some(code));
        }
        // Code that was not met lately, or of a contract that is gone by now: the log has it.
        let mut code = self.view.code(&hash.0).map_err(|error| SnapshotError::Corrupt(error.to_string()))?;
        if let (None, Some(remote)) = (&code, &self.views.remote) {
            code = remote.code(hash)?.map(|code| code.as_ref().into());
        }
        let Some(code) = code.filter(|code| keccak256(code) == *hash) else { return Ok(None) };
        Ok(Some(self.views.codes.rule().code(Bytes::copy_from_slice(&code))))
    }

    /// Chain id of the state, and digest of its genesis: [`crate::chain_digest`].
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn identity(&self) -> Result<Option<(u64, B256)>, SnapshotError> {
        Ok(super::identity_of(&self.read()?)?)
    }

    /// Proves an account, or its absence, for [`crate::verify_account`] and [`crate::verify_code`].
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn prove_account(&self, address: &Address) -> Result<Bytes, SnapshotError> {
        self.prove(&self.read()?, &[address.to_vec()], Vec::new())
    }

    /// Proves a word of storage, or its absence, for [`crate::verify_slot`].
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn prove_slot(&self, address: &Address, slot: &U256) -> Result<Bytes, SnapshotError> {
        let reader = self.read()?;
        // The keys of slots hold the account's incarnation.
        let incarnation = self.stored(&reader, address)?.map_or(0, |account| account.incarnation);
        let names = [address.to_vec(), slot_key(address, slot, incarnation).as_slice().to_vec()];
        self.prove(&reader, &names, incarnation.to_be_bytes().to_vec())
    }

    /// Proves many words of storage like [`Self::prove_slot`], each with its value and a proof of its own. The account, and twigs of
    /// the store that slots share, are read once.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn prove_slots(&self, address: &Address, slots: &[U256]) -> Result<Vec<(U256, Bytes)>, SnapshotError> {
        let mut twigs = ProvenTwigs::default();
        let incarnation = self.stored_incarnation(address)?;
        let prove = |slot: &U256| {
            // No lock of the store is held from one slot to the next.
            let (reader, key) = (self.read()?, slot_key(address, slot, incarnation));
            let bytes = reader.get(key.as_slice());
            self.readable(&reader, bytes.is_some())?;
            let value = bytes.map_or(Some(U256::ZERO), decode_slot);
            let value = value.ok_or_else(|| StateError(format!("slot {slot} of {address}")))?;
            let names = [address.as_slice(), key.as_slice()];
            let proof = reader.prove_keys_with(&names, &mut twigs).map_err(|error| self.failure(error))?;
            Ok((value, [&incarnation.to_be_bytes(), &proof[..]].concat().into()))
        };
        slots.iter().map(prove).collect()
    }

    /// Exporter of the state's snapshot for other nodes, which makes chunks while later blocks run.
    ///
    /// # Errors
    /// [`SnapshotError`]; `NotWritten` until the block is in the log.
    pub fn exporter(&self) -> Result<Exporter, SnapshotError> {
        self.view.exporter().map_err(|error| match error {
            phalanx_merkle::Error::NotWritten => SnapshotError::NotWritten,
            phalanx_merkle::Error::Gone { .. } => SnapshotError::Lost { height: self.height },
            error => SnapshotError::Corrupt(error.to_string()),
        })
    }

    pub(super) fn prove(
        &self,
        reader: &Reader<'_>,
        names: &[Vec<u8>],
        mut head: Vec<u8>,
    ) -> Result<Bytes, SnapshotError> {
        let proof = reader.prove_keys(names).map_err(|error| self.failure(error))?;
        head.extend_from_slice(&proof);
        Ok(head.into())
    }
}

impl DatabaseRef for StateSnapshot {
    type Error = SnapshotError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, SnapshotError> {
        let Some(mut info) = self.account(&address)? else { return Ok(None) };
        info.code = Some(self.code_by_hash_ref(info.code_hash)?);
        Ok(Some(info))
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, SnapshotError> {
        self.code(&code_hash)?.ok_or_else(|| StateError(format!("code {code_hash} is missing")).into())
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, SnapshotError> {
        self.storage(&address, &slot)
    }

    /// Hash of a block, if it is one of the last 256 and the chain's blocks are executed as a whole, or by a service. That of the
    /// state's own block is known to a service alone.
    fn block_hash_ref(&self, number: u64) -> Result<B256, SnapshotError> {
        if let Some(hash) = self.hash.filter(|_| number == self.height) {
            return Ok(hash);
        }
        let reader = self.read()?;
        let bytes = reader.get(&name_key(number));
        self.readable(&reader, bytes.is_some())?;
        if let (None, Some(remote)) = (bytes, self.views.remote.as_ref().filter(|remote| number <= remote.height())) {
            drop(reader);
            return Ok(remote.block_hash(number)?);
        }
        let Some(bytes) = bytes else { return Ok(B256::ZERO) };
        let (height, name) = decode_name(bytes).ok_or_else(|| StateError(format!("the name of block {number}")))?;
        Ok(if height == number { name } else { B256::ZERO })
    }
}
