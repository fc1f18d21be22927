//! Views of the state: values of the list above a database.

use crate::listed::{Listed, list::ListedAccount};
use alloy_eip7928::BlockAccessIndex;
use alloy_primitives::{Address, B256, U256};
use revm_database_interface::DatabaseRef;
use revm_state::{Account, AccountId, AccountInfo, Bytecode, EvmState, EvmStorageSlot, TransactionId};

/// State of a block before one of its steps, according to its list. `D` is the state before the block.
///
/// A value that the list sets at a lower step is the list's; any other is read from `D`. An account that the list leaves
/// without balance, nonce and code does not exist.
#[derive(Clone, Copy, Debug)]
pub struct ListedState<'a, D> {
    listed: &'a Listed<'a>,
    index: u64,
    database: D,
}

impl Listed<'_> {
    /// State that the step at `index` finds. `database` is the state before the block, or a reference to it.
    pub const fn before<D>(&self, index: BlockAccessIndex, database: D) -> ListedState<'_, D> {
        ListedState { listed: self, index: index.get(), database }
    }

    /// State that the block leaves.
    pub const fn after<D>(&self, database: D) -> ListedState<'_, D> {
        ListedState { listed: self, index: u64::MAX, database }
    }

    /// Changes of the block, as revm's `DatabaseCommit` takes them. They are true if the list is: if [`Listed::check`] passes
    /// every step, as [`Workers::run_listed`](crate::Workers::run_listed) does. Reads each of them from `database` once, for
    /// the values before the block.
    ///
    /// # Errors
    /// Error of the database.
    pub fn changes<D: DatabaseRef>(&self, database: D) -> Result<EvmState, D::Error> {
        let after = self.after(());
        let changed = self.accounts().iter().filter(|account| account.changes.has_changes());
        let mut state = EvmState::with_capacity_and_hasher(changed.clone().count(), Default::default());
        for listed in changed {
            let (changes, address) = (listed.changes, listed.changes.address);
            let found = database.basic_ref(address)?;
            let mut account = match found.clone() {
                Some(info) => Account::from(info),
                None => Account::new_not_existing(TransactionId::ZERO),
            };
            account.info = after.account(listed, found).unwrap_or_default();
            account.mark_touch();
            for (slot, value) in changes.storage_post_states() {
                let before = database.storage_ref(address, slot)?;
                account.storage.insert(slot, EvmStorageSlot::new_changed(before, value, TransactionId::ZERO));
            }
            state.insert(address, account);
        }
        Ok(state)
    }
}

impl<D> ListedState<'_, D> {
    /// An account of the list, found in the database as `found`.
    fn account(&self, account: &ListedAccount<'_>, found: Option<AccountInfo>) -> Option<AccountInfo> {
        let (balance, nonce) = (account.balance(self.index), account.nonce(self.index));
        let code = account.code(self.index).and_then(|number| self.listed.code(number));
        if balance.is_none() && nonce.is_none() && code.is_none() {
            return found;
        }
        let mut info = found.unwrap_or_default();
        info.balance = balance.unwrap_or(info.balance);
        info.nonce = nonce.unwrap_or(info.nonce);
        if let Some((hash, code)) = code {
            (info.code_hash, info.code) = (*hash, Some(code.clone()));
        }
        (!info.is_empty()).then_some(info)
    }

    fn slot(&self, address: &Address, slot: &U256) -> Option<U256> {
        self.listed.account(address)?.slot(slot, self.index)
    }
}

impl<D: DatabaseRef> DatabaseRef for ListedState<'_, D> {
    type Error = D::Error;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, D::Error> {
        let found = self.database.basic_ref(address)?;
        Ok(match self.listed.account(&address) {
            Some(account) => self.account(account, found),
            None => found,
        })
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, D::Error> {
        match self.listed.code_of(&hash) {
            Some(code) => Ok(code.clone()),
            None => self.database.code_by_hash_ref(hash),
        }
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, D::Error> {
        self.slot(&address, &slot).map_or_else(|| self.database.storage_ref(address, slot), Ok)
    }

    fn storage_by_account_id_ref(&self, address: Address, id: AccountId, slot: U256) -> Result<U256, D::Error> {
        let below = || self.database.storage_by_account_id_ref(address, id, slot);
        self.slot(&address, &slot).map_or_else(below, Ok)
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, D::Error> {
        self.database.block_hash_ref(number)
    }
}
