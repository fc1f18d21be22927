//! What the state must be after a load, by addition and subtraction alone.

use core::error::Error;

use alloy_primitives::{Address, U256};
use revm::DatabaseRef;

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
    /// A transaction that must succeed failed, or one that is made to fail succeeded.
    #[error("transaction {nonce} of {caller} {}", if *reverts { "succeeded and must revert" } else { "failed and must succeed" })]
    Outcome { caller: Address, nonce: u64, reverts: bool },
    /// The ledger was made by another load.
    #[error("the ledger is one of another load")]
    OtherLoad,
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
    /// A token balance cannot be what its transfers and swaps lead to, in any order.
    #[error("balance of {holder} in token {token}: the nearest that can be is {nearest}, found {found}")]
    TokenBalanceOutside { token: Address, holder: Address, nearest: U256, found: U256 },
    /// All holders together have more or less of a token than there was.
    #[error("token {token}: its holders have {found}, there were {expected}")]
    TokenSum { token: Address, expected: U256, found: U256 },
    /// A slot of a contract that no transaction changes has changed, or one that a deployment sets is otherwise.
    #[error("slot {slot} of {address}: expected {expected}, found {found}")]
    ContractSlot { address: Address, slot: U256, expected: U256, found: U256 },
    /// A pool counted more or fewer swaps than were recorded.
    #[error("pool {pool}: expected {expected} swaps, found {found}")]
    Swaps { pool: Address, expected: u32, found: u32 },
    /// A pool's reserve is not what it holds.
    #[error("pool {pool}: it holds {expected}, its reserve says {found}")]
    Reserve { pool: Address, expected: U256, found: U256 },
    /// The product of a pool's reserves has fallen.
    #[error("pool {pool}: the product of its reserves was {least}, found {found}")]
    Product { pool: Address, least: U256, found: U256 },
    /// An allowance is not the last that was given.
    #[error("allowance of {spender} by {owner} in token {token}: expected {expected}, found {found}")]
    Allowance { token: Address, owner: Address, spender: Address, expected: u64, found: U256 },
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
