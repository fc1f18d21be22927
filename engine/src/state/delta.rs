//! Encodes the changes of a block as the store's delta.

use super::{
    AccountChange, AccountIndexDelta, BARE_STORAGE, Changes, CodeId, ETHEREUM_ROOT, GenesisAccount, IDENTITY, Identity,
    LAST, Origin, Prepared, State, Value,
    encoding::{
        NO_ACCOUNT, NO_WORD, StoredAccount, encode_account, encode_last, encode_name, encode_slot, name_key, slot_key,
    },
    genesis::genesis_code,
};
use crate::model::{Error, RootKind};
use alloy_consensus::Header;
use alloy_primitives::{Address, B256};
use phalanx_merkle::{BlockId, Delta, Fork, Pending, Store};
use phalanx_paralyze::StateKey;

impl State {
    /// Writes the final value of `key` with its `origin` into `delta`. Its incarnation counts: an account is stored
    /// with it, and slots of an earlier incarnation have no place any more.
    pub(crate) fn put(&self, delta: &mut Delta, key: &StateKey, value: &Value, origin: &Origin) {
        let put = |delta: &mut Delta, name: &[u8], bytes: &[u8]| match origin.at {
            Some(at) if origin.differs(key, value) => delta.change_at(at, bytes),
            Some(at) => delta.put_at(at, bytes),
            None => delta.put(name, bytes),
        };
        let Value { nonce, number, incarnation, exists, .. } = *value;
        match key {
            StateKey::Basic(address) if !exists && incarnation == 0 && self.remote.is_some() => {
                put(delta, address.as_slice(), NO_ACCOUNT);
            }
            StateKey::Slot(address, slot) if number.is_zero() && self.remote.is_some() => {
                put(delta, slot_key(address, slot, incarnation).as_slice(), NO_WORD);
            }
            StateKey::Basic(_) if !exists && incarnation == 0 => self.delete(delta, key, incarnation, origin),
            StateKey::Basic(address) => {
                let code_hash = (!value.code.is_none()).then(|| self.codes.hash(value.code));
                if self.remote.is_some() && origin.at.is_none() && code_hash.is_some() {
                    // What is stored is never read from the remote state again, so its code must be stored, too.
                    self.put_code(delta, value.code);
                }
                let account = StoredAccount { exists, nonce, balance: number, code_hash, incarnation };
                put(delta, address.as_slice(), encode_account(&account).as_slice());
            }
            StateKey::Slot(..) if number.is_zero() => self.delete(delta, key, incarnation, origin),
            StateKey::Slot(address, slot) => {
                put(delta, slot_key(address, slot, incarnation).as_slice(), encode_slot(&number).as_slice());
            }
            StateKey::Code(_) => {}
        }
    }

    /// Deletes a stored value. On the committed state a key without a locator is not stored; on a fork it may have been
    /// created since.
    fn delete(&self, delta: &mut Delta, key: &StateKey, incarnation: u32, origin: &Origin) {
        match (origin.at, key) {
            (Some(at), _) => delta.delete_at(at),
            (None, _) if self.above.is_none() => {}
            (None, StateKey::Basic(address)) => delta.delete(address.as_slice()),
            (None, StateKey::Slot(address, slot)) => delta.delete(slot_key(address, slot, incarnation).as_slice()),
            (None, StateKey::Code(_)) => {}
        }
    }

    /// Records an account whose code or incarnation differs from `before`, with its code if that is new.
    pub(crate) fn note(&self, changes: &mut Changes, address: Address, before: &Value, after: &Value) {
        if before.code == after.code && before.incarnation == after.incarnation {
            return;
        }
        let code = (!after.code.is_none()).then(|| self.codes.hash(after.code));
        if after.code != before.code && code.is_some() {
            self.put_code(&mut changes.delta, after.code);
        }
        changes.accounts.changes.push(AccountChange { address, code, incarnation: after.incarnation });
    }

    /// Writes an account of the genesis into `changes`.
    pub(crate) fn put_genesis(&self, changes: &mut Changes, account: &GenesisAccount) -> Result<(), Error> {
        let GenesisAccount { address, balance, nonce, code, storage } = account;
        let is_codeless = code.as_ref().is_none_or(|code| code.is_empty());
        changes.accounts.bare_storage |= *nonce == 0 && is_codeless && !storage.is_empty();
        let code = match code {
            Some(code) if !code.is_empty() => {
                let (hash, code) = genesis_code(code, self.codes.rule())?;
                self.codes.insert(hash, code)
            }
            _ => CodeId::NONE,
        };
        let value = Value { number: *balance, nonce: *nonce, code, exists: true, incarnation: 0 };
        self.note(changes, *address, &Value::default(), &value);
        self.put(&mut changes.delta, &StateKey::Basic(*address), &value, &Origin::default());
        for (slot, number) in storage {
            let value = Value { number: *number, ..Value::default() };
            self.put(&mut changes.delta, &StateKey::Slot(*address, *slot), &value, &Origin::default());
        }
        Ok(())
    }

    /// Stores a block's hash for 256 blocks.
    pub(crate) fn put_hash(changes: &mut Changes, height: u64, hash: B256) {
        changes.delta.put(&name_key(height), &encode_name(height, &hash));
    }

    /// Stores a service's block itself: its height, the name of its execution, and the digest of its header without the state
    /// root. A snapshot of the state then binds the block, and so its hash.
    pub(crate) fn put_last(changes: &mut Changes, height: u64, name: B256, header: B256) {
        changes.delta.put(LAST, &encode_last(height, &name, &header));
    }

    /// Stores the hash of a whole block's parent for 256 blocks.
    pub(crate) fn put_parent(changes: &mut Changes, header: &Header) {
        if let Some(parent) = header.number.checked_sub(1) {
            Self::put_hash(changes, parent, header.parent_hash);
        }
    }

    /// Stores the chain's identity, with its genesis and the kind of its root.
    pub(crate) fn put_identity(&self, changes: &mut Changes, (chain, genesis): Identity) {
        changes.delta.put(IDENTITY, &encode_name(chain, &genesis));
        if self.commitment.kind() == RootKind::Ethereum {
            changes.delta.put(ETHEREUM_ROOT, &[1]);
        }
    }

    /// Records that accounts without code and nonce may hold storage, if that is new.
    pub(crate) fn put_bare_storage(&self, changes: &mut Changes) {
        if changes.accounts.bare_storage && !self.bare_storage {
            changes.delta.put(BARE_STORAGE, &[1]);
        }
    }

    /// Computes the root after `changes`, in the current rayon pool. Nothing is committed.
    pub(crate) fn prepare(&self, mut changes: Changes) -> Result<(Prepared, AccountIndexDelta), Error> {
        self.put_bare_storage(&mut changes);
        let Changes { delta, accounts, .. } = changes;
        Ok((self.prepare_delta(delta)?, accounts))
    }

    /// Computes the root after the changes of a delta, in the current rayon pool. Nothing is committed.
    pub(crate) fn prepare_delta(&self, delta: Delta) -> Result<Prepared, Error> {
        let position = self.position();
        self.commitment.prepare(self.store.prepare_on(position, delta)?, || self.snapshot(position))
    }

    /// Makes a block the committed state in memory, and returns its write.
    pub(crate) fn apply(&mut self, prepared: Prepared) -> Result<Pending, Error> {
        self.commitment.apply(&mut self.store, prepared)
    }

    /// Adds a block with its tag as a fork.
    pub(crate) fn add_fork(&mut self, prepared: Prepared, tag: Vec<u8>) -> Result<BlockId, Error> {
        self.commitment.add_fork(&mut self.store, prepared, tag)
    }

    /// Changes the store's blocks otherwise: commits a fork, drops forks or rewinds.
    pub(crate) fn move_blocks<T>(
        &mut self,
        change: impl FnOnce(&mut Store) -> Result<T, phalanx_merkle::Error>,
    ) -> Result<T, Error> {
        let changed = change(&mut self.store)?;
        self.commitment.follow(&self.store);
        Ok(changed)
    }

    /// All forks, in the order of their creation, with the roots that the chain reports.
    pub(crate) fn forks(&self) -> Vec<Fork> {
        let reported = |fork: Fork| match self.commitment.root(fork.block, fork.root) {
            Some(root) => Fork { root: root.0, ..fork },
            None => fork,
        };
        self.store.forks().into_iter().map(reported).collect()
    }

    /// Adds code to the delta of the block that creates it.
    pub(crate) fn put_code(&self, delta: &mut Delta, id: CodeId) {
        let (hash, code) = self.codes.get(id);
        delta.put_code(hash.0, code.original_byte_slice());
    }
}
