//! Checks a final state by arithmetic alone, without an EVM.

use core::error::Error;

use alloy_primitives::{Address, U256};
use revm::DatabaseRef;

/// Error of a state reader.
pub type ReadError = Box<dyn Error + Send + Sync>;

/// Balance and nonce of an account; both zero if it does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountState {
    /// Balance in wei.
    pub balance: U256,
    /// Transactions sent, or contracts created plus one.
    pub nonce: u64,
}

/// Reads a final state. Every [`DatabaseRef`] is a reader.
pub trait StateReader {
    /// Balance and nonce of an account.
    ///
    /// # Errors
    /// The state cannot be read; an absent account is no error.
    fn account(&self, address: Address) -> Result<AccountState, ReadError>;

    /// Value of a storage slot, zero if it was never written.
    ///
    /// # Errors
    /// The state cannot be read.
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

/// Difference between a final state and the expected one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields say what the messages say: expected and found, in wei, units or gas")]
pub enum CheckError {
    /// A recorded transaction does not belong to this load.
    #[error("transaction {nonce} of {caller} is not of this load")]
    ForeignTransaction { caller: Address, nonce: u64 },
    /// A transaction failed that must succeed, or succeeded although it is built to fail.
    #[error("transaction {nonce} of {caller} {}", if *reverts { "succeeded and must revert" } else { "failed and must succeed" })]
    Outcome { caller: Address, nonce: u64, reverts: bool },
    /// The ledger belongs to another load.
    #[error("the ledger belongs to another load")]
    OtherLoad,
    /// More transactions were recorded than the load has, so some were recorded twice.
    #[error("the load has only {txs} transactions")]
    TooMany { txs: u64 },
    /// The gas of the receipts differs from the expected sum.
    #[error("gas used: expected {expected}, found {found}")]
    GasUsed { expected: u64, found: u64 },
    /// An ether balance differs.
    #[error("balance of {address}: expected {expected} wei, found {found}")]
    Balance { address: Address, expected: U256, found: U256 },
    /// An ether balance lies outside the bounds for the transactions of this sender.
    #[error("balance of {address}: expected {least} to {most} wei, found {found}")]
    BalanceOutside { address: Address, least: U256, most: U256, found: U256 },
    /// An account sent more or fewer transactions than recorded.
    #[error("nonce of {address}: expected {expected}, found {found}")]
    Nonce { address: Address, expected: u64, found: u64 },
    /// A token balance differs.
    #[error("token balance of {holder}: expected {expected}, found {found}")]
    TokenBalance { holder: Address, expected: U256, found: U256 },
    /// Supply, name or symbol of the token changed.
    #[error("slot {slot} of the token: expected {expected}, found {found}")]
    TokenMetadata { slot: U256, expected: U256, found: U256 },
    /// A token balance lies outside the bounds for its transfers and swaps in any order.
    #[error("balance of {holder} in token {token}: the nearest possible is {nearest}, found {found}")]
    TokenBalanceOutside { token: Address, holder: Address, nearest: U256, found: U256 },
    /// The sum over all holders of a token differs from its supply.
    #[error("token {token}: its holders have {found}, the supply is {expected}")]
    TokenSum { token: Address, expected: U256, found: U256 },
    /// A constant slot of a contract has changed, or a deployment has set a slot to another value.
    #[error("slot {slot} of {address}: expected {expected}, found {found}")]
    ContractSlot { address: Address, slot: U256, expected: U256, found: U256 },
    /// A pool counted more or fewer swaps than recorded.
    #[error("pool {pool}: expected {expected} swaps, found {found}")]
    Swaps { pool: Address, expected: u32, found: u32 },
    /// A pool's reserve differs from its balance.
    #[error("pool {pool}: it holds {expected}, its reserve says {found}")]
    Reserve { pool: Address, expected: U256, found: U256 },
    /// The product of a pool's reserves has fallen.
    #[error("pool {pool}: the product of its reserves was {least}, found {found}")]
    Product { pool: Address, least: U256, found: U256 },
    /// An allowance differs from the last approval.
    #[error("allowance of {spender} by {owner} in token {token}: expected {expected}, found {found}")]
    Allowance { token: Address, owner: Address, spender: Address, expected: u64, found: U256 },
    /// The fees that all senders paid differ from the cost of the gas used.
    #[error("fees paid: expected {expected} wei, found {found}")]
    FeesPaid { expected: U256, found: U256 },
    /// The beneficiary's balance differs from the priority fees.
    #[error("beneficiary: expected {expected} wei, found {found}")]
    Reward { expected: U256, found: U256 },
    /// The state could not be read.
    #[error("reading the state failed")]
    Read(#[source] ReadError),
}
