//! The list with an index: entries by account for views, and by step for checks.

use crate::dag::Dag;
use alloy_eip7928::{AccountChanges, BlockAccessIndex, BlockAccessListValidationError, validate_block_access_list};
use alloy_primitives::{
    Address, B256, Bytes, U256, keccak256,
    map::{AddressMap, B256Map},
};
use revm_state::Bytecode;

/// Block access list with an index: what each step of a block finds and leaves, if the list is true.
///
/// The rules of accounts are those from Cancun on: a transaction destroys only contracts that it creates (EIP-6780), and an
/// account without code and nonce has no storage (EIP-7610).
#[derive(Clone, Debug)]
pub struct Listed<'l> {
    accounts: Vec<ListedAccount<'l>>,
    /// Place of each account in `accounts`.
    numbers: AddressMap<usize>,
    /// Codes with their hashes, in the order of the list.
    codes: Vec<(B256, Bytecode)>,
    code_numbers: B256Map<usize>,
    /// Entries of step 0, then of step 1, and so on; within a step in the order of the list.
    entries: Vec<Entry<'l>>,
    /// Number of entries before those of each step, and of all at the end.
    firsts: Vec<usize>,
    transactions: usize,
}

/// An account of the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListedAccount<'l> {
    pub(crate) changes: &'l AccountChanges,
    /// Number of codes of the accounts before.
    first_code: usize,
}

/// A change that the list has at some step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'l> {
    pub(crate) address: &'l Address,
    pub(crate) value: Value<'l>,
}

/// The value that an entry leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'l> {
    Balance(&'l U256),
    Nonce(u64),
    /// Number of a code, see [`Listed::code`].
    Code(usize),
    Slot(&'l U256, &'l U256),
}

/// Refusal of a list before any transaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disorder {
    /// The list is not in canonical order, says something twice, or names a step that the block does not have.
    #[error(transparent)]
    List(#[from] BlockAccessListValidationError),
    /// The block has more transactions than a run takes.
    #[error("a run takes fewer than {most} transactions, not {transactions}", most = Dag::MAX_TRANSACTIONS)]
    Transactions {
        /// Number of transactions.
        transactions: usize,
    },
}

impl<'l> Listed<'l> {
    /// Checks the order of `list`, the list of a block of `transactions` transactions, and indexes it. O(length of the list).
    ///
    /// # Errors
    /// [`Disorder`], on the first account that is not as EIP-7928 says.
    pub fn new(list: &'l [AccountChanges], transactions: usize) -> Result<Self, Disorder> {
        if transactions >= Dag::MAX_TRANSACTIONS {
            return Err(Disorder::Transactions { transactions });
        }
        validate_block_access_list(list, transactions)?;
        let mut accounts = Vec::with_capacity(list.len());
        let mut codes = Vec::new();
        for changes in list {
            accounts.push(ListedAccount { changes, first_code: codes.len() });
            codes.extend(changes.code_changes.iter().map(|change| decoded(&change.new_code)));
        }
        let numbers = list.iter().enumerate().map(|(number, account)| (account.address, number)).collect();
        let code_numbers = codes.iter().enumerate().map(|(number, (hash, _))| (*hash, number)).collect();
        let (entries, firsts) = by_step(&accounts, transactions);
        Ok(Self { accounts, numbers, codes, code_numbers, entries, firsts, transactions })
    }

    /// Number of transactions of the block.
    pub const fn transactions(&self) -> usize {
        self.transactions
    }

    /// Index of the last step, behind the transactions.
    pub const fn last(&self) -> BlockAccessIndex {
        BlockAccessIndex::new(self.transactions as u64 + 1)
    }

    pub(crate) fn accounts(&self) -> &[ListedAccount<'l>] {
        &self.accounts
    }

    pub(crate) fn account(&self, address: &Address) -> Option<&ListedAccount<'l>> {
        self.accounts.get(*self.numbers.get(address)?)
    }

    /// Code of a number, with its hash.
    pub(crate) fn code(&self, number: usize) -> Option<&(B256, Bytecode)> {
        self.codes.get(number)
    }

    pub(crate) fn code_of(&self, hash: &B256) -> Option<&Bytecode> {
        let (_, code) = self.code(*self.code_numbers.get(hash)?)?;
        Some(code)
    }

    /// Entries of a step; none for a step that the block does not have.
    pub(crate) fn entries(&self, index: BlockAccessIndex) -> &[Entry<'l>] {
        let step = usize::try_from(index.get()).unwrap_or(usize::MAX);
        match (self.firsts.get(step), self.firsts.get(step.saturating_add(1))) {
            (Some(first), Some(end)) => self.entries.get(*first..*end).unwrap_or_default(),
            _ => &[],
        }
    }
}

impl ListedAccount<'_> {
    /// Last balance that the list has before a step.
    pub(crate) fn balance(&self, index: u64) -> Option<U256> {
        let changes = &self.changes.balance_changes;
        last_before(changes, index, |change| change.block_access_index).map(|(_, change)| change.post_balance)
    }

    /// Last nonce that the list has before a step.
    pub(crate) fn nonce(&self, index: u64) -> Option<u64> {
        let changes = &self.changes.nonce_changes;
        last_before(changes, index, |change| change.block_access_index).map(|(_, change)| change.new_nonce)
    }

    /// Number of the last code that the list has before a step.
    pub(crate) fn code(&self, index: u64) -> Option<usize> {
        let changes = &self.changes.code_changes;
        last_before(changes, index, |change| change.block_access_index).map(|(place, _)| self.first_code + place)
    }

    /// Last value of a slot that the list has before a step. O(log slots).
    pub(crate) fn slot(&self, slot: &U256, index: u64) -> Option<U256> {
        let slots = &self.changes.storage_changes;
        let place = slots.binary_search_by_key(slot, |changes| changes.slot).ok()?;
        let changes = &slots.get(place)?.changes;
        last_before(changes, index, |change| change.block_access_index).map(|(_, change)| change.new_value)
    }
}

/// Hash and analysis of a code. A list that lies may have a delegation that is none (EIP-7702): it is shown as plain code.
fn decoded(code: &Bytes) -> (B256, Bytecode) {
    let decoded = Bytecode::new_raw_checked(code.clone()).unwrap_or_else(|_| Bytecode::new_legacy(code.clone()));
    (keccak256(code), decoded)
}

/// Sorts all entries by step, and keeps their order within a step. Counts first, so O(entries + steps).
fn by_step<'l>(accounts: &[ListedAccount<'l>], transactions: usize) -> (Vec<Entry<'l>>, Vec<usize>) {
    let mut unsorted: Vec<(usize, Entry<'l>)> = Vec::new();
    for account in accounts {
        let AccountChanges { address, storage_changes, balance_changes, nonce_changes, code_changes, .. } =
            account.changes;
        let mut add = |index: BlockAccessIndex, value| unsorted.push((index.get() as usize, Entry { address, value }));
        balance_changes.iter().for_each(|it| add(it.block_access_index, Value::Balance(&it.post_balance)));
        nonce_changes.iter().for_each(|it| add(it.block_access_index, Value::Nonce(it.new_nonce)));
        for (it, number) in code_changes.iter().zip(account.first_code..) {
            add(it.block_access_index, Value::Code(number));
        }
        for slot in storage_changes {
            slot.changes.iter().for_each(|it| add(it.block_access_index, Value::Slot(&slot.slot, &it.new_value)));
        }
    }
    // The list was validated: no step is behind the last one.
    let mut firsts = vec![0; transactions + 3];
    unsorted.iter().for_each(|(step, _)| firsts[step + 1] += 1);
    let mut sum = 0;
    for first in &mut firsts {
        sum += *first;
        *first = sum;
    }
    let Some((_, some)) = unsorted.first().copied() else { return (Vec::new(), firsts) };
    let (mut sorted, mut next) = (vec![some; unsorted.len()], firsts.clone());
    for (step, entry) in unsorted {
        sorted[next[step]] = entry;
        next[step] += 1;
    }
    (sorted, firsts)
}

/// Last of `changes` before a step, with its place.
fn last_before<T>(changes: &[T], index: u64, at: impl Fn(&T) -> BlockAccessIndex) -> Option<(usize, &T)> {
    let place = before(changes, index, at).checked_sub(1)?;
    changes.get(place).map(|change| (place, change))
}

/// Number of `changes` before a step.
fn before<T>(changes: &[T], index: u64, at: impl Fn(&T) -> BlockAccessIndex) -> usize {
    let is_before = |change: &T| at(change).get() < index;
    // Most lists are short.
    if changes.len() < 8 {
        return changes.iter().take_while(|change| is_before(change)).count();
    }
    // An account that changes in every transaction, like the beneficiary, has one change for each.
    let guess = usize::try_from(index).unwrap_or(usize::MAX).saturating_sub(1);
    let around = (guess.checked_sub(1).and_then(|last| changes.get(last)), changes.get(guess));
    if let (Some(last), Some(next)) = around
        && is_before(last)
        && !is_before(next)
    {
        return guess;
    }
    changes.partition_point(is_before)
}
