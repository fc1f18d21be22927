//! State of serial execution: the committed state under the changes of the block so far.

use crate::{
    bal::Values,
    exec::cells::Settled,
    model::{Error, Fault, paid},
    state::{AccountRules, AccountTransition, Changes, CodeId, Origin, StateError, StateRef, Value},
};
use alloy_primitives::{
    Address, B256, KECCAK256_EMPTY, U256,
    map::{DefaultHashBuilder, HashMap},
};
use core::hash::BuildHasher as _;
use hashbrown::HashTable;
use phalanx_access::KeyId;
use phalanx_memory::Pooled;
use phalanx_merkle::Delta;
use phalanx_paralyze::StateKey;
use revm::{
    Database, DatabaseRef as _,
    primitives::{StorageKey, StorageValue},
    state::{Account, AccountInfo, Bytecode, EvmState},
};
use std::sync::{Arc, OnceLock};

/// State within a block. Every loaded value is kept, so that no second load reaches the store.
///
/// ```text
/// accounts, slots     written here, or loaded and kept
/// listed              values of the block's access list
/// standing            cells of the block's finished transactions
/// state               before the block
/// ```
///
/// A read takes the first layer that has the key. [`Self::above`] replaces kept values by the cells' newer ones.
#[derive(Clone, Debug)]
pub(crate) struct Overlay<'s> {
    state: StateRef<'s>,
    rules: AccountRules,
    /// Values of a block access list up to an index, above the state.
    listed: Option<(Arc<Values>, u64)>,
    /// Cells of the block's finished transactions, above the state and below the values kept here.
    standing: Option<Arc<Standing>>,
    accounts: HashMap<Address, Entry<Held>>,
    slots: HashMap<(Address, U256), Entry<Word>>,
}

/// Cells of finished transactions.
#[derive(Debug)]
struct Standing {
    keys: Pooled<Vec<StateKey>>,
    cells: Settled,
    /// Created at the first search.
    ids: OnceLock<Ids>,
}

/// Ids of the keys, by hash alone to be small.
#[derive(Default)]
struct Ids {
    table: HashTable<KeyId>,
    hasher: DefaultHashBuilder,
}

impl core::fmt::Debug for Ids {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ids").field("len", &self.table.len()).finish_non_exhaustive()
    }
}

impl Ids {
    fn new(keys: &[StateKey]) -> Self {
        let mut ids = Self { table: HashTable::with_capacity(keys.len()), ..Self::default() };
        for (id, key) in (0..).map(KeyId).zip(keys) {
            ids.table.insert_unique(ids.hash(key), id, |id| ids.hasher.hash_one(words(&keys[id.index()])));
        }
        ids
    }

    fn hash(&self, key: &StateKey) -> u64 {
        self.hasher.hash_one(words(key))
    }

    fn find(&self, keys: &[StateKey], key: &StateKey) -> Option<KeyId> {
        self.table.find(self.hash(key), |id| keys[id.index()] == *key).copied()
    }
}

/// A key in words, which hash faster than bytes. Keys of different kinds may be equal.
fn words(key: &StateKey) -> [u64; 7] {
    let mut words = [0; 7];
    for (word, bytes) in words.iter_mut().zip(key.address().as_slice().chunks(8)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    if let StateKey::Slot(_, slot) = key {
        words[3..].copy_from_slice(slot.as_limbs());
    }
    words
}

impl Standing {
    fn find(&self, key: &StateKey) -> Option<KeyId> {
        self.ids.get_or_init(|| Ids::new(&self.keys)).find(&self.keys, key)
    }
}

#[derive(Clone, Debug)]
struct Entry<T> {
    value: T,
    dirty: bool,
}

/// An account, or the rest of a destroyed one.
#[derive(Clone, Debug)]
struct Held {
    info: Option<AccountInfo>,
    incarnation: u32,
}

/// A slot as one incarnation of its account wrote it.
#[derive(Clone, Copy, Debug)]
struct Word {
    number: U256,
    incarnation: u32,
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
    pub(crate) fn new(state: StateRef<'s>, rules: AccountRules) -> Self {
        let (accounts, slots) = (HashMap::default(), HashMap::default());
        Self { state, rules, listed: None, standing: None, accounts, slots }
    }

    /// State before the step at `index` of a block, according to its access list.
    pub(crate) fn listed(state: StateRef<'s>, rules: AccountRules, values: Arc<Values>, index: u64) -> Self {
        Self { listed: Some((values, index)), ..Self::new(state, rules) }
    }

    /// True if no account's storage was emptied here.
    pub(crate) fn is_of_one_incarnation(&self) -> bool {
        self.accounts.iter().all(|(address, entry)| entry.value.incarnation == self.state.incarnation(address))
    }

    /// State after transactions that ran on cells, of `keys`, above this overlay. Requires
    /// [`Self::is_of_one_incarnation`].
    pub(crate) fn above(mut self, keys: Pooled<Vec<StateKey>>, cells: Settled) -> Self {
        debug_assert!(self.is_of_one_incarnation() && self.standing.is_none(), "cells know one incarnation");
        let standing = Standing { keys, cells, ids: OnceLock::new() };
        let accounts = self.accounts.keys().map(|address| StateKey::Basic(*address));
        let slots = self.slots.keys().map(|(address, slot)| StateKey::Slot(*address, *slot));
        // Values kept here are older than the transactions' changes.
        let held: Vec<StateKey> = accounts.chain(slots).collect();
        for key in held.into_iter().filter(|_| !Fault::OlderValueWins.is_seeded()) {
            if let Some(changed) = standing.find(&key).and_then(|id| standing.cells.changed(id)) {
                self.set(&key, &Value { incarnation: self.state.incarnation(key.address()), ..changed.value });
            }
        }
        self.standing = Some(Arc::new(standing));
        self
    }

    /// Rules of account transitions.
    pub(crate) const fn rules(&self) -> AccountRules {
        self.rules
    }

    /// Value of an account or slot that is not kept here.
    fn beneath(&self, key: &StateKey) -> Result<Value, StateError> {
        match self.above_state(key) {
            Some(value) => Ok(value),
            None => self.of_state(key),
        }
    }

    /// Value of an account or slot in the layers between what is kept here and the state.
    fn above_state(&self, key: &StateKey) -> Option<Value> {
        if let Some((values, index)) = &self.listed
            && let Some(value) = values.get(key, *index)
        {
            return Some(value);
        }
        let standing = self.standing.as_ref()?;
        let id = standing.find(key)?;
        let incarnation = self.state.incarnation(key.address());
        // A slot of an account that has lost its storage is zero.
        let stands = matches!(key, StateKey::Basic(_)) || incarnation == self.incarnation(key.address());
        stands.then(|| Value { incarnation, ..standing.cells.get(id) })
    }

    /// Value of an account or slot in the state, which is read.
    fn of_state(&self, key: &StateKey) -> Result<Value, StateError> {
        match key {
            StateKey::Slot(address, slot) => {
                let incarnation = self.incarnation(address);
                Ok(Value::of_slot(self.state.slot(address, slot, incarnation)?, incarnation))
            }
            key => Ok(self.state.load(key)?.0),
        }
    }

    fn info(&self, value: Value) -> Option<AccountInfo> {
        value.exists.then(|| {
            let (code_hash, code) = self.state.codes().get(value.code);
            let Value { number: balance, nonce, .. } = value;
            AccountInfo { balance, nonce, code_hash, code: Some(code), account_id: None }
        })
    }

    /// Sets the value of a key, like a write of a transaction.
    pub(crate) fn set(&mut self, key: &StateKey, value: &Value) {
        match key {
            StateKey::Basic(address) => {
                let info = self.info(*value);
                self.accounts.insert(*address, Entry::written(Held { info, incarnation: value.incarnation }));
            }
            StateKey::Slot(address, slot) => {
                let word = Word { number: value.number, incarnation: value.incarnation };
                self.slots.insert((*address, *slot), Entry::written(word));
            }
            StateKey::Code(_) => {}
        }
    }

    /// Current value of a key, without keeping it.
    pub(crate) fn get(&self, key: &StateKey) -> Result<Value, StateError> {
        match self.in_block(key) {
            Some(value) => Ok(value),
            None => self.of_state(key),
        }
    }

    /// Current value of a key if that takes no read of a disk, without keeping it.
    pub(crate) fn at_hand(&self, key: &StateKey) -> Result<Option<Value>, StateError> {
        match self.in_block(key) {
            Some(value) => Ok(Some(value)),
            None => self.state.at_hand(key, self.incarnation(key.address())),
        }
    }

    /// Current values of many keys, without keeping them. What a disk has is read in one batch.
    pub(crate) fn get_many(&self, keys: &[StateKey]) -> Result<Vec<Value>, StateError> {
        let mut values: Vec<Option<Value>> = keys.iter().map(|key| self.in_block(key)).collect();
        let missing = keys.iter().zip(&values).filter(|(_, value)| value.is_none());
        let missing: Vec<_> = missing.map(|(key, _)| (*key, self.incarnation(key.address()))).collect();
        let mut read = self.state.read_many(&missing)?.into_iter();
        values.iter_mut().filter(|value| value.is_none()).for_each(|value| *value = read.next());
        Ok(values.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// Current value of a key, unless the state has it.
    fn in_block(&self, key: &StateKey) -> Option<Value> {
        match key {
            StateKey::Basic(address) => match self.accounts.get(address) {
                Some(entry) => Some(self.value(&entry.value)),
                None => self.above_state(key),
            },
            StateKey::Slot(address, slot) => {
                let incarnation = self.incarnation(address);
                let number = match self.slots.get(&(*address, *slot)) {
                    Some(Entry { value, .. }) if value.incarnation == incarnation => value.number,
                    Some(_) => U256::ZERO,
                    None => self.above_state(key)?.number,
                };
                Some(Value::of_slot(number, incarnation))
            }
            StateKey::Code(_) => Some(Value::default()),
        }
    }

    /// Account without code; `None` if it has code. The account is kept.
    ///
    /// # Errors
    /// The store is corrupt.
    pub(crate) fn codeless(&mut self, address: Address) -> Result<Option<Value>, StateError> {
        if !self.accounts.contains_key(&address) {
            self.basic(address)?;
        }
        let Held { info, incarnation } = &self.accounts[&address].value;
        let value = Value { incarnation: *incarnation, ..Value::default() };
        Ok(match info {
            Some(info) if info.code_hash != KECCAK256_EMPTY => None,
            Some(info) => Some(Value { number: info.balance, nonce: info.nonce, exists: true, ..value }),
            None => Some(value),
        })
    }

    /// Sets balance and nonce of an account from [`Self::codeless`], which exists from now on.
    pub(crate) fn set_codeless(&mut self, address: Address, value: &Value) {
        if let Some(entry) = self.accounts.get_mut(&address) {
            let info = entry.value.info.get_or_insert_default();
            (info.balance, info.nonce) = (value.number, value.nonce);
            entry.dirty = true;
        }
    }

    fn value(&self, held: &Held) -> Value {
        let Held { info, incarnation } = held;
        let incarnation = *incarnation;
        match info {
            Some(info) => {
                let code = match &info.code {
                    _ if info.code_hash == KECCAK256_EMPTY => CodeId::NONE,
                    Some(code) => self.state.codes().insert(info.code_hash, code.clone()),
                    None => self.state.codes().find(&info.code_hash).unwrap_or(CodeId::NONE),
                };
                Value { number: info.balance, nonce: info.nonce, code, exists: true, incarnation }
            }
            None => Value { incarnation, ..Value::default() },
        }
    }

    /// Current value of a key that does not come from the committed state: it was written, or is a slot of an account
    /// that has lost its storage since.
    pub(crate) fn replaced(&self, key: &StateKey) -> Option<Value> {
        match key {
            StateKey::Basic(address) => {
                self.accounts.get(address).filter(|entry| entry.dirty).map(|entry| self.value(&entry.value))
            }
            StateKey::Slot(address, slot) => {
                let incarnation = self.incarnation(address);
                let held = self.slots.get(&(*address, *slot)).filter(|entry| entry.value.incarnation == incarnation);
                let emptied = incarnation != self.state.incarnation(address);
                let number = held.map_or(U256::ZERO, |entry| entry.value.number);
                let value = Value { number, exists: true, incarnation, ..Value::default() };
                (emptied || held.is_some_and(|entry| entry.dirty)).then_some(value)
            }
            StateKey::Code(_) => None,
        }
    }

    /// Number of times that the storage of `address` was emptied.
    pub(crate) fn incarnation(&self, address: &Address) -> u32 {
        match self.accounts.get(address) {
            Some(entry) => entry.value.incarnation,
            None => self.state.incarnation(address),
        }
    }

    /// Applies the changes of a transaction.
    pub(crate) fn commit(&mut self, state: &EvmState) {
        for (address, account) in state {
            if account.is_touched() {
                self.commit_account(*address, account);
            }
        }
    }

    /// Applies the changes of one account, by EIP-161 as [`AccountRules`] says. revm has marked what EIP-6780 destroys. An
    /// emptied storage begins another incarnation, and no slot is deleted.
    fn commit_account(&mut self, address: Address, account: &Account) {
        let before = self.incarnation(&address);
        let incarnation = before + u32::from(self.rules.resets_storage(account));
        if self.rules.transition(account) == AccountTransition::Gone {
            if !account.is_loaded_as_not_existing() || incarnation != before {
                self.accounts.insert(address, Entry::written(Held { info: None, incarnation }));
            }
            return;
        }
        let appeared = account.is_loaded_as_not_existing();
        if account.is_changed() || account.is_created() || appeared || incarnation != before {
            let held = Held { info: Some(account.info.clone()), incarnation };
            self.accounts.insert(address, Entry::written(held));
        }
        for (slot, value) in &account.storage {
            if value.is_changed() {
                let word = Word { number: value.present_value, incarnation };
                self.slots.insert((address, *slot), Entry::written(word));
            }
        }
    }

    /// Adds to a balance, saturating. The account is touched even by zero (EIP-161).
    ///
    /// # Errors
    /// The store is corrupt.
    pub(crate) fn credit(&mut self, address: Address, amount: U256) -> Result<(), StateError> {
        self.add(address, amount, |balance| balance.saturating_add(amount))
    }

    /// Adds to a balance like a transaction: an overflowing amount is not added at all.
    ///
    /// # Errors
    /// The store is corrupt.
    pub(crate) fn pay(&mut self, address: Address, amount: U256) -> Result<(), StateError> {
        self.add(address, amount, |balance| paid(balance, amount))
    }

    fn add(&mut self, address: Address, amount: U256, sum: impl FnOnce(U256) -> U256) -> Result<(), StateError> {
        let before = self.basic(address)?;
        let existed = before.is_some();
        let mut info = before.unwrap_or_default();
        info.balance = sum(info.balance);
        let gone = self.rules.clears_empty && info.is_empty();
        if existed == gone || !amount.is_zero() {
            let incarnation = self.incarnation(&address) + u32::from(existed && gone && self.rules.bare_storage);
            let info = (!gone).then_some(info);
            self.accounts.insert(address, Entry::written(Held { info, incarnation }));
        }
        Ok(())
    }

    /// Takes an account's whole balance.
    ///
    /// # Errors
    /// The store is corrupt.
    pub(crate) fn drain(&mut self, address: Address) -> Result<U256, StateError> {
        let Some(mut info) = self.basic(address)? else { return Ok(U256::ZERO) };
        let balance = core::mem::take(&mut info.balance);
        let held = Held { info: Some(info), incarnation: self.incarnation(&address) };
        self.accounts.insert(address, Entry::written(held));
        Ok(balance)
    }

    /// Final values of the written keys, and the accounts whose code or incarnation changed.
    ///
    /// # Errors
    /// The store is corrupt.
    pub(crate) fn into_changes(self) -> Result<Changes, Error> {
        let mut changes = match &self.standing {
            Some(standing) => self.stood(standing)?,
            None => Changes::default(),
        };
        let accounts = self.accounts.iter().filter(|(_, entry)| entry.dirty);
        let accounts = accounts.map(|(address, entry)| (StateKey::Basic(*address), self.value(&entry.value)));
        let slots = self.slots.iter().filter(|(_, entry)| entry.dirty).map(|((address, slot), entry)| {
            let Word { number, incarnation } = entry.value;
            (StateKey::Slot(*address, *slot), Value { number, incarnation, ..Value::default() })
        });
        // A slot of another incarnation was written before its account was destroyed.
        let lasts = |(key, value): &(StateKey, Value)| match key {
            StateKey::Slot(address, _) => value.incarnation == self.incarnation(address),
            _ => true,
        };
        // The locator is known only for a slot of the same incarnation.
        let is_kept = |(key, value): &(StateKey, Value)| match key {
            StateKey::Slot(address, _) => value.incarnation == self.state.incarnation(address),
            _ => true,
        };
        let (kept, others): (Vec<_>, Vec<_>) = accounts.chain(slots).filter(lasts).partition(is_kept);
        let keys: Vec<StateKey> = kept.iter().map(|(key, _)| *key).collect();
        let mut values = kept.iter();
        self.state.load_all(&keys, |before, origin| {
            let Some((key, value)) = values.next() else { return };
            if let StateKey::Basic(address) = key {
                self.state.note(&mut changes, *address, &before, value);
            }
            self.state.put(&mut changes, key, value, &origin);
        })?;
        for (key, value) in others {
            self.state.put(&mut changes, &key, &value, &Origin::default());
        }
        Ok(changes)
    }
}

impl Overlay<'_> {
    /// Changes of the cells that no later change has replaced.
    fn stood(&self, standing: &Standing) -> Result<Changes, StateError> {
        let Standing { keys, cells, .. } = standing;
        let state = self.state;
        let delta = Delta::with_capacity(keys.len());
        let mut changes = Changes { delta, ..Changes::default() };
        let accounts = self.accounts.iter().filter(|(_, entry)| entry.dirty);
        let accounts = accounts.map(|(address, _)| StateKey::Basic(*address));
        let slots = self.slots.iter().filter(|(_, entry)| entry.dirty);
        let slots = slots.map(|((address, slot), _)| StateKey::Slot(*address, *slot));
        let mut newer: Vec<KeyId> = accounts.chain(slots).filter_map(|key| standing.find(&key)).collect();
        newer.sort_unstable();
        let mut newer = newer.into_iter().peekable();
        let of_one_incarnation = self.is_of_one_incarnation();
        let cells = cells.still();
        for id in cells.all_changed() {
            while newer.next_if(|newer| *newer < id).is_some() {}
            if newer.next_if_eq(&id).is_some() {
                continue;
            }
            let (key, mut value) = (&keys[id.index()], cells.get(id));
            value.incarnation = state.incarnation(key.address());
            if !of_one_incarnation && self.incarnation(key.address()) != value.incarnation {
                // The account was destroyed after the transactions.
                continue;
            }
            if let StateKey::Basic(address) = key
                && cells.is_recoded(id)
            {
                state.note(&mut changes, *address, &state.load(key)?.0, &value);
            }
            state.put(&mut changes, key, &value, cells.origin(id));
        }
        Ok(changes)
    }
}

impl Database for Overlay<'_> {
    type Error = StateError;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        if let Some(entry) = self.accounts.get(&address) {
            return Ok(entry.value.info.clone());
        }
        let info = match (&self.listed, &self.standing) {
            (None, None) => self.state.basic_ref(address)?,
            _ => self.info(self.beneath(&StateKey::Basic(address))?),
        };
        let held = Held { info: info.clone(), incarnation: self.state.incarnation(&address) };
        self.accounts.insert(address, Entry::loaded(held));
        Ok(info)
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, StateError> {
        // Accounts are loaded with their code, so only code from an account of this block can be requested.
        let infos = self.accounts.values().filter_map(|entry| entry.value.info.as_ref());
        match infos.into_iter().find(|info| info.code_hash == code_hash).and_then(|info| info.code.clone()) {
            Some(code) => Ok(code),
            None => self.state.code_by_hash_ref(code_hash),
        }
    }

    fn storage(&mut self, address: Address, slot: StorageKey) -> Result<StorageValue, StateError> {
        let incarnation = self.incarnation(&address);
        if let Some(Entry { value, .. }) = self.slots.get(&(address, slot)) {
            return Ok(if value.incarnation == incarnation { value.number } else { U256::ZERO });
        }
        let number = self.beneath(&StateKey::Slot(address, slot))?.number;
        self.slots.insert((address, slot), Entry::loaded(Word { number, incarnation }));
        Ok(number)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, StateError> {
        self.state.block_hash_ref(number)
    }
}
