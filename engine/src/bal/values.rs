//! Values of every key at every step of a block, according to its list.

use crate::bal::{
    List,
    list::{Slot, before},
};
use crate::model::Fault;
use crate::state::{Changes, CodeId, Codes, Hashes, Origin, StateError, StateRef, Value};
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::{Bytes, U256, keccak256};
use core::sync::atomic::{AtomicBool, Ordering};
use phalanx_paralyze::StateKey;
use rayon::prelude::*;
use std::sync::Arc;

/// Number of keys per chunk when a block's values are loaded.
const LOAD_PIECE: usize = 512;

/// A list and the values before its block.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) list: List,
    /// Values by key, in the order of [`List::key`].
    loaded: Vec<(Value, Origin)>,
    /// True for accessed keys.
    accessed: Vec<AtomicBool>,
    /// Ids of the list's codes, from [`Self::meet_codes`] on.
    code_ids: Vec<CodeId>,
    pub(crate) codes: Arc<Codes>,
    pub(crate) hashes: Hashes,
}

impl Values {
    /// Loads the value of every key of `list`, in the current rayon pool. [`Self::meet_codes`] follows before a step
    /// behind the first is looked at.
    ///
    /// # Errors
    /// The store is corrupt, or the database fails.
    pub(crate) fn load(list: List, state: StateRef<'_>) -> Result<Self, StateError> {
        let keys = list.names();
        let mut loaded = vec![(Value::default(), Origin::default()); keys.len()];
        let pieces = loaded.par_chunks_mut(LOAD_PIECE).zip(keys.par_chunks(LOAD_PIECE));
        pieces.with_max_len(1).try_for_each(|(loaded, keys)| {
            let mut loaded = loaded.iter_mut();
            state.load_many(keys, |value, origin| {
                if let Some(loaded) = loaded.next() {
                    *loaded = (value, origin);
                }
            })
        })?;
        let accessed = keys.iter().map(|_| AtomicBool::new(false)).collect();
        let (codes, hashes) = (Arc::clone(state.codes()), state.hashes());
        Ok(Self { list, loaded, accessed, code_ids: Vec::new(), codes, hashes })
    }

    /// Hashes and analyses the list's codes. They are in the table as long as the block runs, and stay if it is
    /// committed.
    pub(crate) fn meet_codes(&mut self) {
        let rule = self.codes.rule();
        let codes = self.list.accounts.iter().flat_map(|account| &account.code_changes).map(|change| &change.new_code);
        let id = |code: &Bytes| match code.is_empty() {
            true => CodeId::NONE,
            false => self.codes.insert(keccak256(code), rule.code(code.clone())),
        };
        self.code_ids = codes.map(id).collect();
    }

    /// True if an account of the list existed and was empty before the block (EIP-161): a touch deletes such an
    /// account, which a list cannot express.
    pub(crate) fn has_empty_existing(&self) -> bool {
        (0..self.list.accounts.len()).any(|number| self.loaded[self.list.key(number)].0.is_empty_existing())
    }

    /// Account `number` before the step at `index`.
    #[inline]
    pub(crate) fn account(&self, number: usize, index: u64) -> Value {
        let index = index.saturating_add(u64::from(Fault::ListIndexShift.is_seeded()));
        let mut value = self.loaded[self.list.key(number)].0;
        let account = &self.list.accounts[number];
        let balances = before(&account.balance_changes, index, |change| change.block_access_index);
        let nonces = before(&account.nonce_changes, index, |change| change.block_access_index);
        let codes = before(&account.code_changes, index, |change| change.block_access_index);
        if balances + nonces + codes == 0 {
            return value;
        }
        if balances > 0 {
            value.number = account.balance_changes[balances - 1].post_balance;
        }
        if nonces > 0 {
            value.nonce = account.nonce_changes[nonces - 1].new_nonce;
        }
        if codes > 0 {
            value.code = self.code_ids[self.list.code_number(number, codes - 1)];
        }
        value.exists = value.nonce != 0 || !value.number.is_zero() || !value.code.is_none();
        value
    }

    /// A slot of account `number` before the step at `index`.
    #[inline]
    pub(crate) fn slot(&self, number: usize, slot: Slot, index: u64) -> U256 {
        if let Slot::Changed(place) = slot {
            let changes = &self.list.accounts[number].storage_changes[place].changes;
            let count = before(changes, index, |change| change.block_access_index);
            if count > 0 {
                return changes[count - 1].new_value;
            }
        }
        self.loaded[self.list.slot_key(number, slot)].0.number
    }

    /// Value of a listed key before the step at `index`.
    pub(crate) fn get(&self, key: &StateKey, index: u64) -> Option<Value> {
        let number = self.list.find(key.address())?;
        match key {
            StateKey::Slot(_, slot) => {
                let incarnation = self.loaded[self.list.key(number)].0.incarnation;
                let number = self.slot(number, self.list.find_slot(number, slot)?, index);
                Some(Value { number, incarnation, ..Value::default() })
            }
            StateKey::Basic(_) => Some(self.account(number, index)),
            StateKey::Code(_) => None,
        }
    }

    /// Marks a key as accessed.
    #[inline]
    pub(crate) fn mark(&self, key: usize) {
        let mark = &self.accessed[key];
        // Popular keys stay shared between the caches.
        if !mark.load(Ordering::Relaxed) {
            mark.store(true, Ordering::Relaxed);
        }
    }

    /// True if a key was accessed. Changes count as accesses of their slots: all of them were found.
    pub(crate) fn is_marked(&self, key: usize) -> bool {
        self.accessed[key].load(Ordering::Relaxed)
    }

    /// Changes of the block, if the list is true.
    pub(crate) fn changes(&self, state: StateRef<'_>) -> Result<Changes, StateError> {
        let mut changes = Changes::default();
        for (number, account) in self.list.accounts.iter().enumerate() {
            let AccountChanges { address, storage_changes, balance_changes, nonce_changes, code_changes, .. } = account;
            let incarnation = state.incarnation(address);
            if !balance_changes.is_empty() || !nonce_changes.is_empty() || !code_changes.is_empty() {
                let (before, origin) = &self.loaded[self.list.key(number)];
                let after = Value { incarnation, ..self.account(number, u64::MAX) };
                state.note(&mut changes, *address, before, &after);
                state.put(&mut changes, &StateKey::Basic(*address), &after, origin);
            }
            for (place, slot) in storage_changes.iter().enumerate() {
                let (_, origin) = &self.loaded[self.list.slot_key(number, Slot::Changed(place))];
                let number = self.slot(number, Slot::Changed(place), u64::MAX);
                let value = Value { number, incarnation, ..Value::default() };
                state.put(&mut changes, &StateKey::Slot(*address, slot.slot), &value, origin);
            }
        }
        Ok(changes)
    }
}
