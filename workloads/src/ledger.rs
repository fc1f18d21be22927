//! Sums and counts of executed transactions, from which a check computes the expected state.

use core::fmt;

use alloy_primitives::{Address, U256};
use revm::context::TxEnv;

use crate::{
    accounts::Accounts,
    base::{Base, MAX_VALUE},
    check::{AccountState, CheckError, StateReader},
    config::TransferLoad,
    market::{Book, Market, Steps},
    per_account::PerAccount,
    transactions::Transfers,
};

/// A payment, decoded from its transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payment {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) amount: u64,
}

/// Sum of the executed transfers of one account.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    /// Received minus sent, in wei or token units, without fees.
    pub(crate) change: i128,
    /// Transactions sent.
    pub(crate) sent: u32,
}

/// Executed transactions of a load, as far as the final state can tell: sums and counts per account.
///
/// Created by [`Workload::ledger`](crate::Workload::ledger) and
/// [`Workload::full_ledger`](crate::Workload::full_ledger).
#[derive(Clone)]
pub struct Ledger<'a> {
    records: Records<'a>,
    /// # Invariants
    /// At most `limit`. With no amount above a load's highest, genesis funds then cover every account's debits, and the
    /// arithmetic of a check cannot overflow.
    transactions: u64,
    limit: u64,
}

#[derive(Clone)]
enum Records<'a> {
    /// Transfers of one kind, all of which succeed.
    Transfers {
        accounts: &'a Accounts,
        read: fn(&TxEnv) -> Option<Payment>,
        entries: PerAccount<Entry>,
        /// Maximum number of accounts that a check looks at.
        most: usize,
    },
    Market(Book<'a>),
}

impl fmt::Debug for Ledger<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("transactions", &self.transactions)
            .field("reverted", &self.reverted())
            .finish_non_exhaustive()
    }
}

impl<'a> Ledger<'a> {
    pub(crate) const BYTES_PER_ACCOUNT: usize = PerAccount::<Entry>::BYTES;

    pub(crate) fn new(base: &'a Base, read: fn(&TxEnv) -> Option<Payment>) -> Self {
        let entries = PerAccount::new(base.accounts.len());
        let records = Records::Transfers { accounts: &base.accounts, read, entries, most: usize::MAX };
        Self { records, transactions: 0, limit: base.load.txs }
    }

    pub(crate) fn full(base: &'a Base, read: fn(&TxEnv) -> Option<Payment>) -> Self {
        let mut ledger = Self::new(base, read);
        if let Records::Transfers { entries, .. } = &mut ledger.records {
            for transfer in Transfers::new(base) {
                add(entries, transfer.from, transfer.to, transfer.value);
            }
        }
        ledger.transactions = base.load.txs;
        ledger
    }

    pub(crate) const fn of_market(book: Book<'a>) -> Self {
        let limit = book.load().txs;
        Self { records: Records::Market(book), transactions: 0, limit }
    }

    pub(crate) fn full_of_market(mut book: Book<'a>, steps: Steps<'a>) -> Self {
        steps.for_each(|step| book.add(&step));
        let limit = book.load().txs;
        Self { records: Records::Market(book), transactions: limit, limit }
    }

    /// Adds an executed transaction that succeeded. O(log accounts); a full ledger of the whole load is much faster.
    ///
    /// # Errors
    /// [`CheckError::ForeignTransaction`], [`CheckError::TooMany`], or [`CheckError::Outcome`] if it is built to fail;
    /// the ledger is then unchanged.
    pub fn record(&mut self, tx: &TxEnv) -> Result<(), CheckError> {
        self.note(tx, true)
    }

    /// Adds an executed transaction that failed: its nonce is used and its gas paid, nothing else changes.
    ///
    /// # Errors
    /// Like [`Self::record`]; [`CheckError::Outcome`] if it is built to succeed.
    pub fn record_failed(&mut self, tx: &TxEnv) -> Result<(), CheckError> {
        self.note(tx, false)
    }

    fn note(&mut self, tx: &TxEnv, succeeded: bool) -> Result<(), CheckError> {
        if self.transactions == self.limit {
            return Err(CheckError::TooMany { txs: self.limit });
        }
        let foreign = CheckError::ForeignTransaction { caller: tx.caller, nonce: tx.nonce };
        let meant_to = |reverts: bool| {
            if succeeded == reverts {
                Err(CheckError::Outcome { caller: tx.caller, nonce: tx.nonce, reverts })
            } else {
                Ok(())
            }
        };
        match &mut self.records {
            Records::Transfers { accounts, read, entries, .. } => {
                let sides = read(tx).filter(|payment| payment.amount <= MAX_VALUE).and_then(|payment| {
                    let position = |address: &Address| accounts.position(address).map(|position| position as u32);
                    Some((position(&payment.from)?, position(&payment.to)?, payment.amount))
                });
                let (from, to, amount) = sides.ok_or(foreign)?;
                meant_to(false)?;
                add(entries, from, to, amount);
            }
            Records::Market(book) => {
                let step = book.read(tx).ok_or(foreign)?;
                meant_to(step.action.reverts())?;
                book.add(&step);
            }
        }
        self.transactions += 1;
        Ok(())
    }

    /// Number of recorded transactions.
    pub const fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Number of recorded transactions that failed, as they are built to.
    pub const fn reverted(&self) -> u64 {
        match &self.records {
            Records::Transfers { .. } => 0,
            Records::Market(book) => book.reverted(),
        }
    }

    /// Has a check of transfers look at no more than about `most` accounts, evenly among those that take part: each is a read or
    /// two of a state that may be on disk. A check of a market looks at all.
    #[must_use]
    pub fn with_sample(mut self, most: usize) -> Self {
        if let Records::Transfers { most: of, .. } = &mut self.records {
            *of = most.max(1);
        }
        self
    }

    /// Sums of the transfers per account: of all, or of a sample.
    pub(crate) fn entries(&self) -> Result<impl Iterator<Item = (Address, &Entry)>, CheckError> {
        match &self.records {
            Records::Transfers { accounts, entries, most, .. } => {
                let is_sampled = *most != usize::MAX;
                let looked_at = entries.iter().filter(move |(_, entry)| !is_sampled || entry.takes_part());
                Ok(looked_at.step_by(self.step()).map(|(position, entry)| (accounts.address(position as usize), entry)))
            }
            Records::Market(_) => Err(CheckError::OtherLoad),
        }
    }

    /// Distance of two accounts that a check of transfers looks at.
    fn step(&self) -> usize {
        match &self.records {
            Records::Transfers { entries, most, .. } => {
                entries.iter().filter(|(_, entry)| entry.takes_part()).count().div_ceil(*most).max(1)
            }
            Records::Market(_) => 1,
        }
    }

    /// True if a check looks at every account that takes part, so that sums over all of them mean something.
    pub(crate) fn is_whole(&self) -> bool {
        self.step() == 1
    }

    /// Compares `state` with the result of the recorded transactions of `market`.
    pub(crate) fn check_market(
        &self,
        market: &Market,
        gas_used: u64,
        state: &dyn StateReader,
    ) -> Result<(), CheckError> {
        match &self.records {
            Records::Market(book) if book.is_of(market) => {
                book.check(gas_used, state)?;
                self.check_reward(&market.base.load, gas_used, state)
            }
            _ => Err(CheckError::OtherLoad),
        }
    }

    /// Compares the beneficiary's balance with the priority fees: it began with nothing and takes no part.
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

fn add(entries: &mut PerAccount<Entry>, from: u32, to: u32, amount: u64) {
    let sender = entries.at(from);
    sender.change -= i128::from(amount);
    sender.sent += 1;
    entries.at(to).change += i128::from(amount);
}

impl Entry {
    /// True if the account sent, or its balance changed.
    const fn takes_part(&self) -> bool {
        self.sent > 0 || self.change != 0
    }

    pub(crate) fn check_nonce(&self, address: Address, account: &AccountState) -> Result<(), CheckError> {
        let expected = u64::from(self.sent);
        if account.nonce == expected {
            return Ok(());
        }
        Err(CheckError::Nonce { address, expected, found: account.nonce })
    }
}
