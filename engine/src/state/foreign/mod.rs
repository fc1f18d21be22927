//! A foreign database under a block: any [`DatabaseRef`](revm::DatabaseRef), read from all threads.
//!
//! Every item is asked for once and kept until the block ends. So one block sees one value of each key, also of a
//! database that changes meanwhile, and no executor sees another than the others.

mod bundle;
mod read;

use super::{CodeId, Codes, Hashes, StateError, Tip, Value};
use crate::model::{ForeignError, ForeignItem};
use alloy_primitives::{
    Address, B256, KECCAK256_EMPTY, U256, keccak256,
    map::{DefaultHashBuilder, HashMap},
};
use core::{
    fmt,
    hash::{BuildHasher, Hash},
};
use parking_lot::Mutex;
use phalanx_paralyze::StateKey;
use rayon::prelude::*;
use read::{Fault, Read};
use revm::{
    DatabaseRef,
    state::{AccountInfo, Bytecode},
};
use std::sync::Arc;

use super::Origin;

/// Number of parts of each cache, so that threads seldom wait for each other.
const PARTS: usize = 16;

/// Minimum number of keys that one thread loads.
const LOAD_PIECE: usize = 16;

/// A foreign database, and what was read from it.
pub(crate) struct Foreign<'d> {
    database: &'d dyn Read,
    codes: Arc<Codes>,
    tip: Arc<Tip>,
    hashes: Hashes,
    accounts: Cache<Address, Value>,
    slots: Cache<(Address, U256), U256>,
    /// First failure.
    failed: Mutex<Option<ForeignError>>,
}

impl fmt::Debug for Foreign<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreign").field("failed", &self.failed).finish_non_exhaustive()
    }
}

/// Values by key, in parts.
struct Cache<K, V> {
    parts: [Mutex<HashMap<K, V>>; PARTS],
    hasher: DefaultHashBuilder,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self { parts: core::array::from_fn(|_| Mutex::default()), hasher: DefaultHashBuilder::default() }
    }
}

impl<K: Copy + Eq + Hash, V: Copy> Cache<K, V> {
    /// Value of a key, read if it is not here. Of two threads that read at once, the first decides.
    fn get<E>(&self, key: K, read: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        // Other bits than the tables within use.
        let part = &self.parts[(self.hasher.hash_one(key) >> 32) as usize % PARTS];
        if let Some(value) = part.lock().get(&key) {
            return Ok(*value);
        }
        let value = read()?;
        Ok(*part.lock().entry(key).or_insert(value))
    }
}

impl<'d> Foreign<'d> {
    /// A database before a block, whose parent's number and hash are `parent`. Code that it gives is kept in `codes`.
    pub(crate) fn new<D: DatabaseRef + Sync>(database: &'d D, codes: Arc<Codes>, parent: Option<(u64, B256)>) -> Self {
        Self {
            database,
            codes,
            tip: Tip::new(),
            hashes: Hashes::partial(parent.into_iter().collect()),
            accounts: Cache::default(),
            slots: Cache::default(),
            failed: Mutex::default(),
        }
    }

    pub(crate) const fn codes(&self) -> &Arc<Codes> {
        &self.codes
    }

    pub(crate) const fn tip(&self) -> &Arc<Tip> {
        &self.tip
    }

    pub(crate) fn hashes(&self) -> Hashes {
        self.hashes.clone()
    }

    /// Reads the hashes that an execution has missed. Returns true if there are any: its result is worth nothing then.
    ///
    /// # Errors
    /// The database has no answer.
    pub(crate) fn learn_missed_hashes(&mut self) -> Result<bool, StateError> {
        let missed = self.hashes.take_missed();
        if missed.is_empty() {
            return Ok(false);
        }
        let mut known = self.hashes.known().clone();
        for number in missed {
            known.insert(number, self.block_hash(number)?);
        }
        self.hashes = Hashes::partial(known);
        Ok(true)
    }

    /// Takes the first failure.
    pub(crate) fn take_failure(&self) -> Option<ForeignError> {
        self.failed.lock().take()
    }

    fn failure(&self, item: ForeignItem, source: Fault) -> StateError {
        let error = ForeignError { item, source };
        let text = StateError(error.to_string());
        self.failed.lock().get_or_insert(error);
        text
    }

    /// Account of an address, with code.
    pub(super) fn account(&self, address: &Address) -> Result<Value, StateError> {
        self.accounts.get(*address, || {
            let failure = |source| self.failure(ForeignItem::Account(*address), source);
            let Some(info) = self.database.account(*address).map_err(failure)? else { return Ok(Value::default()) };
            let AccountInfo { balance, nonce, code_hash, code, .. } = info;
            let code = self.code_id(&code_hash, code)?;
            Ok(Value { number: balance, nonce, code, exists: true, incarnation: 0 })
        })
    }

    /// Id of code, which `given` is if the database has sent it with an account.
    fn code_id(&self, hash: &B256, given: Option<Bytecode>) -> Result<CodeId, StateError> {
        if *hash == KECCAK256_EMPTY || hash.is_zero() {
            return Ok(CodeId::NONE);
        }
        if let Some(id) = self.codes.find(hash) {
            return Ok(id);
        }
        let failure = |source| self.failure(ForeignItem::Code(*hash), source);
        let code = match given {
            Some(code) => code,
            None => self.database.code(*hash).map_err(failure)?,
        };
        let bytes = code.original_bytes();
        let found = keccak256(&bytes);
        if found != *hash {
            return Err(failure(format!("the bytes that it gives have hash {found}").into()));
        }
        Ok(self.codes.insert_stored(*hash, self.codes.rule().code(bytes)))
    }

    /// Account as revm sees it.
    pub(super) fn info(&self, address: &Address) -> Result<Option<AccountInfo>, StateError> {
        Ok(info(&self.codes, &self.account(address)?))
    }

    /// Code with a hash that some account has.
    pub(super) fn code(&self, hash: &B256) -> Result<Bytecode, StateError> {
        Ok(self.codes.get(self.code_id(hash, None)?).1)
    }

    /// Word of a slot.
    pub(super) fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        self.slots.get((*address, *slot), || {
            let failure = |source| self.failure(ForeignItem::Slot(*address, *slot), source);
            self.database.slot(*address, *slot).map_err(failure)
        })
    }

    /// Hash of a block.
    pub(super) fn block_hash(&self, number: u64) -> Result<B256, StateError> {
        if let Some(hash) = self.hashes.known().get(&number) {
            return Ok(*hash);
        }
        let failure = |source| self.failure(ForeignItem::BlockHash(number), source);
        self.database.block_hash(number).map_err(failure)
    }

    /// Hash of an account's code, if it can be read and is not empty. A choice, not a result, depends on it.
    pub(super) fn code_hash(&self, address: &Address) -> Option<B256> {
        let code = self.account(address).ok()?.code;
        (!code.is_none()).then(|| self.codes.hash(code))
    }

    /// Value of one key.
    pub(super) fn value(&self, key: &StateKey) -> Result<Value, StateError> {
        match key {
            StateKey::Basic(address) => self.account(address),
            StateKey::Slot(address, slot) => {
                Ok(Value { number: self.slot(address, slot)?, exists: true, ..Value::default() })
            }
            StateKey::Code(_) => Ok(Value::default()),
        }
    }

    /// Loads the values of many keys, on all threads of the current rayon pool: a foreign read may take long.
    pub(super) fn load_many(&self, keys: &[StateKey], mut take: impl FnMut(Value, Origin)) -> Result<(), StateError> {
        if keys.len() > LOAD_PIECE {
            keys.par_iter().with_min_len(LOAD_PIECE).try_for_each(|key| self.value(key).map(drop))?;
        }
        keys.iter().try_for_each(|key| {
            take(self.value(key)?, Origin::default());
            Ok(())
        })
    }
}

/// An account as revm sees it.
fn info(codes: &Codes, value: &Value) -> Option<AccountInfo> {
    value.exists.then(|| {
        let (code_hash, code) = codes.get(value.code);
        AccountInfo { balance: value.number, nonce: value.nonce, code_hash, code: Some(code), account_id: None }
    })
}
