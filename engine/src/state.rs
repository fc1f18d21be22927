//! The committed state: the only file that knows both the state store and revm.

use crate::{
    Error, GenesisAccount,
    cells::Value,
    codes::{CodeChanges, CodeId, Codes, Contracts},
    encoding::{MAX_KEY, StoredAccount, decode_account, decode_slot, encode_account, encode_slot, slot_key},
    engine::genesis_code,
    view::Ancestors,
};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use phalanx_merkle::{Delta, Locator, Store};
use phalanx_paralyze::{Snapshot, StateKey};
use revm::{
    DatabaseRef,
    database_interface::DBErrorMarker,
    primitives::{StorageKey, StorageValue},
    state::{AccountInfo, Bytecode},
};
use std::sync::Arc;

/// Keys that are looked up together when a block's values are loaded.
const LOAD_WAVE: usize = 64;

/// The state after the last committed block. It is a [`DatabaseRef`]: calls, traces and inspectors run on it unchanged.
#[derive(Debug)]
pub struct State {
    pub(crate) store: Store,
    pub(crate) codes: Arc<Codes>,
    pub(crate) ancestors: Arc<Ancestors>,
    /// Names this state among all states of all engines; replaced with every commit.
    pub(crate) tip: Arc<Tip>,
    contracts: Contracts,
}

/// A state's name, equal to itself alone.
#[derive(Debug)]
pub(crate) struct Tip {
    // Not zero-sized, so that no two of them share an address.
    _place: u8,
}

impl Tip {
    fn new() -> Arc<Self> {
        Arc::new(Self { _place: 0 })
    }
}

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

impl State {
    /// Takes over an open store: meets all contracts in it.
    pub(crate) fn new(store: Store) -> Result<Self, Error> {
        let mut state = Self {
            store,
            codes: Arc::new(Codes::new()),
            ancestors: Arc::default(),
            tip: Tip::new(),
            contracts: Contracts::default(),
        };
        let mut contracts = Vec::new();
        for (key, value) in state.store.read().committed() {
            if let Ok(address) = <[u8; 20]>::try_from(key) {
                let address = Address::new(address);
                if let Some(hash) = account(&address, value)?.code_hash {
                    contracts.push((address, hash));
                }
            }
        }
        for (address, hash) in contracts {
            let code = state.store.code(&hash.0)?.ok_or_else(|| StateError(format!("code {hash} is missing")))?;
            if keccak256(&code) != hash {
                return Err(StateError(format!("code {hash} has another hash")).into());
            }
            let code = Bytecode::new_raw_checked(Bytes::copy_from_slice(&code))
                .map_err(|error| StateError(format!("code {hash}: {error}")))?;
            state.codes.insert(hash, code);
            state.contracts.insert(address, hash);
        }
        Ok(state)
    }

    /// Height of the last committed block; `None` before genesis.
    pub fn height(&self) -> Option<u64> {
        self.store.height()
    }

    /// Root of the committed state.
    pub fn root(&self) -> B256 {
        B256::new(self.store.root())
    }

    /// An account without its code.
    ///
    /// # Errors
    /// If the stored bytes are not an account.
    pub fn account(&self, address: &Address) -> Result<Option<(u64, U256)>, Error> {
        Ok(self.stored(address)?.map(|account| (account.nonce, account.balance)))
    }

    /// A storage slot; zero if it is not stored.
    ///
    /// # Errors
    /// If the stored bytes are not a word.
    pub fn storage(&self, address: &Address, slot: &U256) -> Result<U256, Error> {
        Ok(self.storage_ref(*address, *slot)?)
    }

    fn stored(&self, address: &Address) -> Result<Option<StoredAccount>, StateError> {
        self.store.read().get(address.as_slice()).map(|bytes| account(address, bytes)).transpose()
    }

    fn code_id(&self, hash: &B256) -> Result<CodeId, StateError> {
        self.codes.find(hash).ok_or_else(|| StateError(format!("code {hash} is missing")))
    }

    fn value(&self, key: &StateKey, bytes: &[u8]) -> Result<Value, StateError> {
        Ok(match key {
            StateKey::Basic(address) => {
                let StoredAccount { nonce, balance, code_hash } = account(address, bytes)?;
                let code = code_hash.map_or(Ok(CodeId::NONE), |hash| self.code_id(&hash))?;
                Value { number: balance, nonce, code, exists: true }
            }
            StateKey::Slot(address, slot) => {
                let number = decode_slot(bytes).ok_or_else(|| StateError(format!("slot {slot} of {address}")))?;
                Value { number, exists: true, ..Value::default() }
            }
            // Stands for the part of an account that its `Basic` cell holds; nothing reads this cell.
            StateKey::Code(_) => Value::default(),
        })
    }

    /// The value of one key, and where the store keeps it.
    pub(crate) fn load(&self, key: &StateKey) -> Result<(Value, Option<Locator>), StateError> {
        let store = self.store.read();
        let locator = match key {
            StateKey::Basic(address) => store.locate(address.as_slice()),
            StateKey::Slot(address, slot) => store.locate(&slot_key(address, slot)),
            StateKey::Code(_) => None,
        };
        match locator.and_then(|at| store.value(at)) {
            Some(bytes) => Ok((self.value(key, bytes)?, locator)),
            None => Ok((Value::default(), None)),
        }
    }

    /// The values of many keys, their cache misses overlapped; calls `take` for each in order.
    pub(crate) fn load_many(
        &self,
        keys: &[StateKey],
        mut take: impl FnMut(Value, Option<Locator>),
    ) -> Result<(), StateError> {
        let mut locators = Vec::with_capacity(LOAD_WAVE);
        for keys in keys.chunks(LOAD_WAVE) {
            let names: [KeyBytes; LOAD_WAVE] =
                core::array::from_fn(|i| keys.get(i).map_or(KeyBytes::NONE, KeyBytes::of));
            locators.clear();
            let store = self.store.read();
            store.locate_many(&names[..keys.len()], &mut locators);
            for (key, locator) in keys.iter().zip(&locators) {
                let bytes = locator.and_then(|at| store.value(at));
                let value = bytes.map_or(Ok(Value::default()), |bytes| self.value(key, bytes))?;
                take(value, *locator);
            }
        }
        Ok(())
    }

    /// Writes the final value of `key` into `delta`.
    pub(crate) fn put(&self, delta: &mut Delta, key: &StateKey, value: &Value, at: Option<Locator>) {
        match key {
            StateKey::Basic(address) if value.exists => {
                let hash = if value.code.is_none() { KECCAK256_EMPTY } else { self.codes.hash(value.code) };
                let bytes = encode_account(value.nonce, &value.number, &hash);
                put(delta, address.as_slice(), at, bytes.as_slice());
            }
            StateKey::Basic(_) => delete(delta, at),
            StateKey::Slot(address, slot) if value.number.is_zero() => delete(delta, at),
            StateKey::Slot(address, slot) => {
                put(delta, &slot_key(address, slot), at, encode_slot(&value.number).as_slice());
            }
            StateKey::Code(_) => {}
        }
    }

    /// Writes an account of the first state into `delta`.
    pub(crate) fn put_genesis(
        &self,
        delta: &mut Delta,
        codes: &mut CodeChanges,
        account: &GenesisAccount,
    ) -> Result<(), Error> {
        let GenesisAccount { address, balance, nonce, code, storage } = account;
        let code = match code {
            Some(code) if !code.is_empty() => {
                let (hash, code) = genesis_code(code)?;
                let id = self.codes.insert(hash, code);
                self.put_code(delta, id);
                codes.push((*address, Some(hash)));
                id
            }
            _ => CodeId::NONE,
        };
        let exists = !balance.is_zero() || *nonce != 0 || !code.is_none();
        let value = Value { number: *balance, nonce: *nonce, code, exists };
        self.put(delta, &StateKey::Basic(*address), &value, None);
        for (slot, number) in storage {
            let value = Value { number: *number, ..Value::default() };
            self.put(delta, &StateKey::Slot(*address, *slot), &value, None);
        }
        Ok(())
    }

    /// Puts code next to the delta of the block that creates it.
    pub(crate) fn put_code(&self, delta: &mut Delta, id: CodeId) {
        let (hash, code) = self.codes.get(id);
        delta.put_code(hash.0, code.original_byte_slice());
    }

    /// Moves on: follows the code changes of a block that is being committed.
    pub(crate) fn adopt(&mut self, changes: &[(Address, Option<B256>)]) {
        self.tip = Tip::new();
        for (address, hash) in changes {
            match hash {
                Some(hash) => _ = self.contracts.insert(*address, *hash),
                None => _ = self.contracts.remove(address),
            }
        }
    }
}

/// A key as the store names it.
#[derive(Clone, Copy)]
struct KeyBytes {
    bytes: [u8; MAX_KEY],
    len: usize,
}

impl KeyBytes {
    /// No key of the store.
    const NONE: Self = Self { bytes: [0; MAX_KEY], len: 0 };

    fn of(key: &StateKey) -> Self {
        match key {
            StateKey::Basic(address) => {
                let mut name = Self::NONE;
                name.bytes[..20].copy_from_slice(address.as_slice());
                Self { len: 20, ..name }
            }
            StateKey::Slot(address, slot) => Self { bytes: slot_key(address, slot), len: MAX_KEY },
            StateKey::Code(_) => Self::NONE,
        }
    }
}

impl AsRef<[u8]> for KeyBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn account(address: &Address, bytes: &[u8]) -> Result<StoredAccount, StateError> {
    decode_account(bytes).ok_or_else(|| StateError(format!("account {address}")))
}

fn put(delta: &mut Delta, key: &[u8], at: Option<Locator>, value: &[u8]) {
    match at {
        Some(at) => delta.put_at(at, value),
        None => delta.put(key, value),
    }
}

/// Deletes what the store holds; a key that it does not hold needs no deletion.
fn delete(delta: &mut Delta, at: Option<Locator>) {
    if let Some(at) = at {
        delta.delete_at(at);
    }
}

impl DatabaseRef for State {
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        let Some(stored) = self.stored(&address)? else { return Ok(None) };
        let (code_hash, code) = match stored.code_hash {
            Some(hash) => self.codes.get(self.code_id(&hash)?),
            None => (KECCAK256_EMPTY, Bytecode::default()),
        };
        let StoredAccount { balance, nonce, .. } = stored;
        Ok(Some(AccountInfo { balance, nonce, code_hash, code: Some(code), account_id: None }))
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, StateError> {
        Ok(self.codes.get(self.code_id(&code_hash)?).1)
    }

    fn storage_ref(&self, address: Address, slot: StorageKey) -> Result<StorageValue, StateError> {
        match self.store.read().get(&slot_key(&address, &slot)) {
            Some(bytes) => decode_slot(bytes).ok_or_else(|| StateError(format!("slot {slot} of {address}"))),
            None => Ok(U256::ZERO),
        }
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        Ok(self.ancestors.get(&number).copied().unwrap_or_default())
    }
}

impl Snapshot for State {
    fn code_hash(&self, address: &Address) -> Option<B256> {
        self.contracts.get(address).copied()
    }
}
