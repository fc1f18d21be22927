//! The state before a block, as a server gives it, item by item. Everything that is read is kept: it is the recording.

use super::{client::Client, error::FetchError};
use phalanx::revm::{
    DatabaseRef,
    primitives::{Address, B256, Bytes, U256, keccak256},
    state::{AccountInfo, Bytecode},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json, value::RawValue};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Requests for the parts of an account.
const ACCOUNT: [&str; 3] = ["eth_getBalance", "eth_getTransactionCount", "eth_getCode"];

/// Maximum number of items that are read ahead: a trace may name anything.
const AHEAD: usize = 200_000;

/// An account as it was before the block.
#[derive(Clone, Debug, Default)]
struct Account {
    balance: U256,
    nonce: u64,
    code: Bytes,
}

impl Account {
    fn exists(&self) -> bool {
        !self.balance.is_zero() || self.nonce > 0 || !self.code.is_empty()
    }
}

/// Items that were read.
#[derive(Debug, Default)]
struct Kept {
    accounts: BTreeMap<Address, Account>,
    slots: BTreeMap<(Address, U256), U256>,
    hashes: BTreeMap<u64, B256>,
    /// First failure.
    failure: Option<FetchError>,
}

/// The state before a block.
pub(super) struct Remote<'c, 'u> {
    client: Mutex<&'c mut Client<'u>>,
    /// Number of the block before, as requests name it.
    at: String,
    kept: Mutex<Kept>,
}

/// Counts of a recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) accounts: usize,
    pub(super) slots: usize,
    pub(super) hashes: usize,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the answer to a request.
pub(super) fn read<T: DeserializeOwned>(method: &'static str, result: &RawValue) -> Result<T, FetchError> {
    let unusable = |error: serde_json::Error| FetchError::Answer { method, why: error.to_string() };
    serde_json::from_str(result.get()).map_err(unusable)
}

/// Number of a block, as requests name it.
pub(super) fn number(of: u64) -> String {
    format!("{of:#x}")
}

impl<'c, 'u> Remote<'c, 'u> {
    /// The state after block `parent`, of the hash that its child names.
    pub(super) fn new(client: &'c mut Client<'u>, parent: u64, hash: B256) -> Self {
        let kept = Kept { hashes: BTreeMap::from([(parent, hash)]), ..Kept::default() };
        Self { client: Mutex::new(client), at: number(parent), kept: Mutex::new(kept) }
    }

    /// Reads the accounts and slots that a trace of the block names, many at a time. It saves time and decides nothing: values come
    /// from the state before the block, and what a trace does not name is read when the block needs it.
    pub(super) fn read_ahead(&self, named: &BTreeMap<Address, Vec<U256>>) -> Result<(), FetchError> {
        let addresses: Vec<Address> = named.keys().copied().take(AHEAD).collect();
        let slots = named.iter().flat_map(|(address, slots)| slots.iter().map(|slot| (*address, *slot)));
        let slots: Vec<(Address, U256)> = slots.take(AHEAD).collect();
        let mut calls: Vec<_> = addresses.iter().flat_map(|address| self.account_calls(*address)).collect();
        calls.extend(slots.iter().map(|(address, slot)| self.slot_call(*address, *slot)));
        let answers = lock(&self.client).ask_each(&calls)?;
        let (of_accounts, of_slots) = answers.split_at(ACCOUNT.len() * addresses.len());
        let mut kept = lock(&self.kept);
        for (address, parts) in addresses.into_iter().zip(of_accounts.chunks(ACCOUNT.len())) {
            kept.accounts.insert(address, account(parts)?);
        }
        for (place, value) in slots.into_iter().zip(of_slots) {
            kept.slots.insert(place, read("eth_getStorageAt", value)?);
        }
        Ok(())
    }

    fn account_calls(&self, address: Address) -> [(&'static str, Value); 3] {
        ACCOUNT.map(|method| (method, json!([address, self.at])))
    }

    fn slot_call(&self, address: Address, slot: U256) -> (&'static str, Value) {
        ("eth_getStorageAt", json!([address, B256::from(slot), self.at]))
    }

    /// Keeps the first failure, which the engine tells in words only.
    fn noted<T>(&self, result: Result<T, FetchError>) -> Result<T, FetchError> {
        if let Err(error) = &result {
            lock(&self.kept).failure.get_or_insert_with(|| error.clone());
        }
        result
    }

    /// The first failure to read.
    pub(super) fn take_failure(&self) -> Option<FetchError> {
        lock(&self.kept).failure.take()
    }

    fn account(&self, address: Address) -> Result<Account, FetchError> {
        if let Some(known) = lock(&self.kept).accounts.get(&address) {
            return Ok(known.clone());
        }
        let parts = lock(&self.client).ask_all(self.account_calls(address))?;
        let account = account(&parts)?;
        lock(&self.kept).accounts.insert(address, account.clone());
        Ok(account)
    }

    fn slot(&self, address: Address, slot: U256) -> Result<U256, FetchError> {
        if let Some(known) = lock(&self.kept).slots.get(&(address, slot)) {
            return Ok(*known);
        }
        let (method, params) = self.slot_call(address, slot);
        let value = read(method, &lock(&self.client).ask(method, params)?)?;
        lock(&self.kept).slots.insert((address, slot), value);
        Ok(value)
    }

    fn hash(&self, of: u64) -> Result<B256, FetchError> {
        const METHOD: &str = "eth_getBlockByNumber";
        if let Some(known) = lock(&self.kept).hashes.get(&of) {
            return Ok(*known);
        }
        let block: Value = read(METHOD, &lock(&self.client).ask(METHOD, json!([number(of), false]))?)?;
        let hash = block["hash"].as_str().and_then(|hash| hash.parse::<B256>().ok());
        let named = block["number"].as_str().map(str::to_owned);
        let hash = hash.filter(|_| named == Some(number(of)));
        let hash = hash.ok_or_else(|| FetchError::Answer { method: METHOD, why: format!("it is not block {of}") })?;
        lock(&self.kept).hashes.insert(of, hash);
        Ok(hash)
    }

    /// The recording: `prestate.json`, `block_hashes.json`, and counts.
    pub(super) fn recording(&self) -> (Value, Value, Counts) {
        let kept = lock(&self.kept);
        let mut state: BTreeMap<Address, Map<String, Value>> = BTreeMap::new();
        for (address, Account { balance, nonce, code }) in kept.accounts.iter().filter(|(_, account)| account.exists())
        {
            let fields = state.entry(*address).or_default();
            fields.insert("balance".into(), json!(balance));
            fields.insert("nonce".into(), json!(nonce));
            if !code.is_empty() {
                fields.insert("code".into(), json!(code));
            }
        }
        let mut slots = 0;
        for ((address, slot), value) in &kept.slots {
            // An account that does not exist has no slots: what was read of it is zero.
            let Some(fields) = state.get_mut(address) else { continue };
            slots += 1;
            let storage = fields.entry("storage").or_insert_with(|| Map::new().into());
            storage[B256::from(*slot).to_string()] = json!(B256::from(*value));
        }
        let counts = Counts { accounts: state.len(), slots, hashes: kept.hashes.len() };
        (json!(state), json!(kept.hashes), counts)
    }
}

/// An account from the answers about its parts.
fn account(parts: &[Box<RawValue>]) -> Result<Account, FetchError> {
    let [balance, nonce, code] = parts else { unreachable!("three parts were asked for") };
    let nonce: U256 = read(ACCOUNT[1], nonce)?;
    let wide = |_| FetchError::Answer { method: ACCOUNT[1], why: format!("{nonce} is no nonce") };
    Ok(Account {
        balance: read(ACCOUNT[0], balance)?,
        nonce: u64::try_from(nonce).map_err(wide)?,
        code: read(ACCOUNT[2], code)?,
    })
}

impl DatabaseRef for Remote<'_, '_> {
    type Error = FetchError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, FetchError> {
        let account = self.noted(self.account(address))?;
        if !account.exists() {
            return Ok(None);
        }
        let Account { balance, nonce, code } = account;
        let code_hash = keccak256(&code);
        let code = Bytecode::new_raw_checked(code);
        let odd = |error| FetchError::Answer { method: ACCOUNT[2], why: format!("the code of {address}: {error}") };
        let code = self.noted(code.map_err(odd))?;
        Ok(Some(AccountInfo { balance, nonce, code_hash, code: Some(code), ..AccountInfo::default() }))
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, FetchError> {
        // Every account comes with its code.
        let why = format!("code of the hash {hash} is wanted apart from its account");
        self.noted(Err(FetchError::Answer { method: ACCOUNT[2], why }))
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, FetchError> {
        self.noted(self.slot(address, slot))
    }

    fn block_hash_ref(&self, of: u64) -> Result<B256, FetchError> {
        self.noted(self.hash(of))
    }
}
