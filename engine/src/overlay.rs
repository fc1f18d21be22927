//! What blocks executed in order see: the committed state under the changes of the block so far.

use crate::{
    Error,
    cells::Value,
    codes::{CodeChanges, CodeId},
    state::{State, StateError},
};
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256, map::HashMap};
use phalanx_merkle::Delta;
use phalanx_paralyze::StateKey;
use revm::{
    Database, DatabaseRef as _,
    primitives::{StorageKey, StorageValue},
    state::{AccountInfo, Bytecode, EvmState},
};

/// The state of a block in the making. Every loaded value is kept, so that no second load reaches the store.
#[derive(Debug)]
pub(crate) struct Overlay<'s> {
    state: &'s State,
    accounts: HashMap<Address, Entry<Option<AccountInfo>>>,
    slots: HashMap<(Address, U256), Entry<U256>>,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    dirty: bool,
}

impl<T> Entry<T> {
    const fn loaded(value: T) -> Self {
        Self { value, dirty: false }
    }

    const fn written(value: T) -> Self {
        Self { value, dirty: true }
    }
}

impl<'s> Overlay<'s> {
    pub(crate) fn new(state: &'s State) -> Self {
        Self { state, accounts: HashMap::default(), slots: HashMap::default() }
    }

    /// Starts from values that earlier transactions of the block left.
    pub(crate) fn seed(&mut self, key: &StateKey, value: &Value) {
        match key {
            StateKey::Basic(address) => {
                let info = value.exists.then(|| {
                    let (code_hash, code) = self.state.codes.get(value.code);
                    let Value { number: balance, nonce, .. } = *value;
                    AccountInfo { balance, nonce, code_hash, code: Some(code), account_id: None }
                });
                self.accounts.insert(*address, Entry::written(info));
            }
            StateKey::Slot(address, slot) => _ = self.slots.insert((*address, *slot), Entry::written(value.number)),
            StateKey::Code(_) => {}
        }
    }

    /// Takes over what a transaction changed.
    pub(crate) fn commit(&mut self, state: &EvmState) {
        for (address, account) in state {
            if !account.is_touched() {
                continue;
            }
            if account.is_selfdestructed() || account.is_empty() {
                // Since EIP-6780 nothing with stored slots is destroyed.
                self.accounts.insert(*address, Entry::written(None));
                continue;
            }
            if account.is_changed() || account.is_created() {
                self.accounts.insert(*address, Entry::written(Some(account.info.clone())));
            }
            for (slot, value) in &account.storage {
                if value.is_changed() {
                    self.slots.insert((*address, *slot), Entry::written(value.present_value));
                }
            }
        }
    }

    /// Adds to a balance.
    pub(crate) fn credit(&mut self, address: Address, amount: U256) -> Result<(), StateError> {
        if !amount.is_zero() {
            let mut info = self.basic(address)?.unwrap_or_default();
            info.balance = info.balance.saturating_add(amount);
            self.accounts.insert(address, Entry::written(Some(info)));
        }
        Ok(())
    }

    /// The final values of what was written, and the accounts whose code changed.
    pub(crate) fn into_delta(self) -> Result<(Delta, CodeChanges), Error> {
        let state = self.state;
        let mut delta = Delta::new();
        let mut codes = Vec::new();
        for (address, entry) in self.accounts.into_iter().filter(|(_, entry)| entry.dirty) {
            let key = StateKey::Basic(address);
            let (before, at) = state.load(&key)?;
            let value = match entry.value {
                Some(info) => {
                    let code = match info.code {
                        _ if info.code_hash == KECCAK256_EMPTY => CodeId::NONE,
                        Some(code) => state.codes.insert(info.code_hash, code),
                        None => before.code,
                    };
                    Value { number: info.balance, nonce: info.nonce, code, exists: true }
                }
                None => Value::default(),
            };
            changed_code(state, &mut delta, &mut codes, address, before.code, value.code);
            state.put(&mut delta, &key, &value, at);
        }
        for ((address, slot), entry) in self.slots.into_iter().filter(|(_, entry)| entry.dirty) {
            let key = StateKey::Slot(address, slot);
            let (_, at) = state.load(&key)?;
            state.put(&mut delta, &key, &Value { number: entry.value, ..Value::default() }, at);
        }
        Ok((delta, codes))
    }
}

/// Notes a change of code, and stores code that is new.
pub(crate) fn changed_code(
    state: &State,
    delta: &mut Delta,
    changes: &mut CodeChanges,
    address: Address,
    before: CodeId,
    after: CodeId,
) {
    if before != after {
        if after.is_none() {
            changes.push((address, None));
        } else {
            state.put_code(delta, after);
            changes.push((address, Some(state.codes.hash(after))));
        }
    }
}

impl Database for Overlay<'_> {
    type Error = StateError;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        if let Some(entry) = self.accounts.get(&address) {
            return Ok(entry.value.clone());
        }
        let info = self.state.basic_ref(address)?;
        self.accounts.insert(address, Entry::loaded(info.clone()));
        Ok(info)
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, StateError> {
        // Accounts are loaded with their code, so only code from an account of this block can be asked for.
        let created = self.accounts.values().filter_map(|e| e.value.as_ref()).find(|info| info.code_hash == code_hash);
        match created.and_then(|info| info.code.clone()) {
            Some(code) => Ok(code),
            None => self.state.code_by_hash_ref(code_hash),
        }
    }

    fn storage(&mut self, address: Address, slot: StorageKey) -> Result<StorageValue, StateError> {
        if let Some(entry) = self.slots.get(&(address, slot)) {
            return Ok(entry.value);
        }
        let value = self.state.storage_ref(address, slot)?;
        self.slots.insert((address, slot), Entry::loaded(value));
        Ok(value)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, StateError> {
        self.state.block_hash_ref(number)
    }
}
