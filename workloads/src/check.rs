//! What the state must be after a load, by addition and subtraction alone.

use core::{error::Error, fmt};

use alloy_primitives::{Address, U256};
use revm::{DatabaseRef, context::TxEnv};

use crate::{
    Accounts, TransferLoad,
    base::{Base, MAX_VALUE},
    transactions::Transfers,
};

/// Whatever a state reader failed with.
pub type ReadError = Box<dyn Error + Send + Sync>;

/// Balance and nonce of an account; both zero if it does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountState {
    /// In wei.
    pub balance: U256,
    /// Transactions sent, or contracts created plus one.
    pub nonce: u64,
}

/// Reads a final state. Every [`DatabaseRef`] is one.
pub trait StateReader {
    /// Balance and nonce of an account.
    ///
    /// # Errors
    /// If the state cannot be read; an absent account is no error.
    fn account(&self, address: Address) -> Result<AccountState, ReadError>;

    /// The value of a storage slot, zero if it was never written.
    ///
    /// # Errors
    /// If the state cannot be read.
    fn storage(&self, address: Address, slot: U256) -> Result<U256, ReadError>;
}

impl<D: DatabaseRef> StateReader for D {
    fn account(&self, address: Address) -> Result<AccountState, ReadError> {
        let info = self.basic_ref(address).map_err(Box::new)?.unwrap_or_default();
        Ok(AccountState { balance: info.balance, nonce: info.nonce })
    }

    fn storage(&self, address: Address, slot: U256) -> Result<U256, ReadError> {
        Ok(self.storage_ref(address, slot).map_err(Box::new)?)
    }
}

/// How a final state differs from what it must be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields say what the messages say: expected and found, in wei, units or gas")]
pub enum CheckError {
    /// A transaction that this load cannot have made was recorded.
    #[error("transaction {nonce} of {caller} is not of this load")]
    ForeignTransaction { caller: Address, nonce: u64 },
    /// More transactions were recorded than the load has, so that some were recorded twice.
    #[error("the load has only {txs} transactions")]
    TooMany { txs: u64 },
    /// The receipts add up to another amount of gas.
    #[error("gas used: expected {expected}, found {found}")]
    GasUsed { expected: u64, found: u64 },
    /// An ether balance is off.
    #[error("balance of {address}: expected {expected} wei, found {found}")]
    Balance { address: Address, expected: U256, found: U256 },
    /// An ether balance cannot be what a sender of so many transactions has left.
    #[error("balance of {address}: expected {least} to {most} wei, found {found}")]
    BalanceOutside { address: Address, least: U256, most: U256, found: U256 },
    /// An account sent more or fewer transactions than recorded.
    #[error("nonce of {address}: expected {expected}, found {found}")]
    Nonce { address: Address, expected: u64, found: u64 },
    /// A token balance is off.
    #[error("token balance of {holder}: expected {expected}, found {found}")]
    TokenBalance { holder: Address, expected: U256, found: U256 },
    /// Supply, name or symbol of the token changed.
    #[error("slot {slot} of the token: expected {expected}, found {found}")]
    TokenMetadata { slot: U256, expected: U256, found: U256 },
    /// All senders together paid another amount than the gas they used costs.
    #[error("fees paid: expected {expected} wei, found {found}")]
    FeesPaid { expected: U256, found: U256 },
    /// The beneficiary holds something else than the priority fees.
    #[error("beneficiary: expected {expected} wei, found {found}")]
    Reward { expected: U256, found: U256 },
    /// The state could not be read.
    #[error("reading the state failed")]
    Read(#[source] ReadError),
}

/// What a transaction moves, read back from the transaction itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payment {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) amount: u64,
}

/// What executed transactions add up to for one account.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    /// Received minus sent, in wei or token units, without fees.
    pub(crate) change: i128,
    /// Transactions sent.
    pub(crate) sent: u32,
}

/// Which transactions of a load succeeded, as far as the final state can tell: a sum and a count per account.
///
/// Made by [`Workload::ledger`](crate::Workload::ledger) and [`Workload::full_ledger`](crate::Workload::full_ledger).
#[derive(Clone)]
pub struct Ledger<'a> {
    accounts: &'a Accounts,
    read: fn(&TxEnv) -> Option<Payment>,
    entries: Vec<Entry>,
    /// # Invariants
    /// At most `limit`. With no amount above [`MAX_VALUE`], genesis funds then cover every account's debits, and the
    /// arithmetic of a check cannot overflow.
    transactions: u64,
    limit: u64,
}

impl fmt::Debug for Ledger<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("transactions", &self.transactions).finish_non_exhaustive()
    }
}

impl<'a> Ledger<'a> {
    pub(crate) const BYTES_PER_ACCOUNT: usize = size_of::<Entry>();

    pub(crate) fn new(base: &'a Base, read: fn(&TxEnv) -> Option<Payment>) -> Self {
        let entries = vec![Entry::default(); base.accounts.len()];
        Self { accounts: &base.accounts, read, entries, transactions: 0, limit: base.load.txs }
    }

    pub(crate) fn full(base: &'a Base, read: fn(&TxEnv) -> Option<Payment>) -> Self {
        let mut ledger = Self::new(base, read);
        for transfer in Transfers::new(base) {
            ledger.add(transfer.from as usize, transfer.to as usize, transfer.value);
        }
        ledger
    }

    /// Adds a transaction that succeeded. O(log accounts); for all of them a full ledger is made much faster.
    ///
    /// # Errors
    /// [`CheckError::ForeignTransaction`] or [`CheckError::TooMany`]; the ledger is then unchanged.
    pub fn record(&mut self, tx: &TxEnv) -> Result<(), CheckError> {
        if self.transactions == self.limit {
            return Err(CheckError::TooMany { txs: self.limit });
        }
        let sides = (self.read)(tx).filter(|payment| payment.amount <= MAX_VALUE).and_then(|payment| {
            Some((self.accounts.position(&payment.from)?, self.accounts.position(&payment.to)?, payment.amount))
        });
        let foreign = CheckError::ForeignTransaction { caller: tx.caller, nonce: tx.nonce };
        let (from, to, amount) = sides.ok_or(foreign)?;
        self.add(from, to, amount);
        Ok(())
    }

    /// How many transactions it holds.
    pub const fn transactions(&self) -> u64 {
        self.transactions
    }

    fn add(&mut self, from: usize, to: usize, amount: u64) {
        self.entries[from].change -= i128::from(amount);
        self.entries[from].sent += 1;
        self.entries[to].change += i128::from(amount);
        self.transactions += 1;
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Address, &Entry)> {
        self.accounts.addresses().iter().zip(&self.entries)
    }

    /// The beneficiary began with nothing and takes part in nothing, so it holds the priority fees.
    pub(crate) fn check_reward(
        &self,
        load: &TransferLoad,
        gas_used: u64,
        state: &dyn StateReader,
    ) -> Result<(), CheckError> {
        let expected = U256::from(u128::from(gas_used) * u128::from(load.fees.priority_fee));
        let found = state.account(load.coinbase).map_err(CheckError::Read)?.balance;
        if found == expected { Ok(()) } else { Err(CheckError::Reward { expected, found }) }
    }
}

impl Entry {
    pub(crate) fn check_nonce(&self, address: Address, account: &AccountState) -> Result<(), CheckError> {
        let expected = u64::from(self.sent);
        if account.nonce == expected {
            return Ok(());
        }
        Err(CheckError::Nonce { address, expected, found: account.nonce })
    }
}
