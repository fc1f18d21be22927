//! Results that a pool reports, and settlements that it is given.

use super::{PooledTx, queue::Seat};
use alloy_primitives::{Address, B256, U256};
use revm::{context::TxEnv, context_interface::result::InvalidTransaction};
use std::sync::Arc;

/// Result of an admission.
#[derive(Clone, Debug)]
#[must_use = "a refused transaction is lost unless its sender is notified"]
pub enum Admission {
    /// The transaction is in the pool.
    Admitted {
        /// The pool's handle.
        tx: Arc<PooledTx>,
        /// True if it can run once its sender's earlier ones did, by the last known state.
        is_ready: bool,
        /// Transactions that were removed to make room.
        removed: Vec<Removed>,
    },
    /// The transaction is not in the pool, and nothing has changed.
    Refused(Refusal),
}

impl Admission {
    /// The admitted transaction; `None` if it was refused.
    pub(super) fn admitted(&self) -> Option<&TxEnv> {
        match self {
            Self::Admitted { tx, .. } => Some(tx.tx()),
            Self::Refused(_) => None,
        }
    }
}

/// Reason for which a pool refuses a transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The transaction is in the pool.
    #[error("the transaction is in the pool already")]
    Known,
    /// No sender offers a forced transaction.
    #[error("a forced transaction is not pooled: put it into the block that the chain derives")]
    Forced,
    /// The blobs have the proofs of another hard fork (EIP-7594).
    #[error("the blobs have the proofs of another hard fork")]
    Proofs,
    /// The encoding is too long.
    #[error("{len} bytes are more than {max}")]
    TooLong {
        /// Length of the encoding, in bytes.
        len: usize,
        /// Maximum length, in bytes.
        max: usize,
    },
    /// No block has room for the gas limit.
    #[error("gas limit {gas_limit} is above {max}")]
    TooMuchGas {
        /// Gas limit of the transaction.
        gas_limit: u64,
        /// Maximum gas limit.
        max: u64,
    },
    /// The gas limit is below the transaction's intrinsic cost.
    #[error("gas limit {gas_limit} is below the intrinsic gas {least}")]
    TooLittleGas {
        /// Gas limit of the transaction.
        gas_limit: u64,
        /// Intrinsic gas, or the floor for calldata.
        least: u64,
    },
    /// The prices are below the pool's minimum.
    #[error("price {cap} and tip {tip} are below the minimum of {min_cap} and {min_tip} wei per gas")]
    Underpriced {
        /// Highest price per gas, in wei.
        cap: u128,
        /// Highest tip per gas, in wei.
        tip: u128,
        /// Minimum price, in wei.
        min_cap: u128,
        /// Minimum tip, in wei.
        min_tip: u128,
    },
    /// The tip exceeds the whole price (EIP-1559).
    #[error("tip {tip} is above the price {cap}")]
    TipAboveCap {
        /// Highest price per gas, in wei.
        cap: u128,
        /// Highest tip per gas, in wei.
        tip: u128,
    },
    /// The sender's nonce is past it, or the transaction at this nonce was executed in an uncommitted block.
    #[error("nonce {nonce} is used; the sender's next is {next}")]
    NonceUsed {
        /// Nonce of the transaction.
        nonce: u64,
        /// Next nonce of the sender.
        next: u64,
    },
    /// The nonce is too far ahead of the sender's.
    #[error("nonce {nonce} is not among the {window} from {next} on")]
    NonceTooFar {
        /// Nonce of the transaction.
        nonce: u64,
        /// Next nonce of the sender.
        next: u64,
        /// Number of nonces that the pool admits from there on.
        window: u64,
    },
    /// The sender cannot pay for this transaction alone.
    #[error("the sender's balance {balance} does not pay for {cost} wei")]
    Funds {
        /// Maximum cost, in wei.
        cost: U256,
        /// Balance of the sender, in wei.
        balance: U256,
    },
    /// The maximum cost exceeds 2^256 wei.
    #[error("the cost may exceed 2^256 wei")]
    CostOverflow,
    /// The sender delegates (EIP-7702), or a pooled transaction would make it: it has one transaction here, which is its
    /// next. Another transaction can empty such an account, so that all that wait behind are invalid at once.
    #[error("the sender delegates, so it has one pending transaction, at nonce {next}")]
    OneOfDelegated {
        /// Next nonce of the sender.
        next: u64,
    },
    /// The transaction would make an account delegate that has transactions here.
    #[error("{authority}, which would delegate, has pending transactions")]
    AuthorityPending {
        /// Account that would delegate.
        authority: Address,
    },
    /// The sender has code (EIP-3607).
    #[error("the sender is a contract")]
    SenderIsContract,
    /// The prices are too low to replace the transaction with the same sender and nonce.
    #[error("to replace {hash}, every price must exceed it by {bump} percent")]
    ReplacementUnderpriced {
        /// Hash of the transaction that stays.
        hash: B256,
        /// Minimum raise, in percent.
        bump: u64,
    },
    /// A builder executes the transaction with the same sender and nonce.
    #[error("{hash}, which would be replaced, is being executed")]
    InFlight {
        /// Hash of the transaction that stays.
        hash: B256,
    },
    /// The sender's transactions take too many bytes.
    #[error("the sender's transactions would take {bytes} bytes of at most {max}")]
    SenderFull {
        /// Bytes with this transaction.
        bytes: usize,
        /// Maximum bytes per sender.
        max: usize,
    },
    /// The pool is full of transactions that pay at least as much.
    #[error("the pool is full of transactions that are worth more")]
    Full,
}

/// A transaction that was removed from a pool.
#[derive(Clone, Debug)]
pub struct Removed {
    /// The transaction.
    pub tx: Arc<PooledTx>,
    /// Reason of the removal.
    pub cause: Cause,
    /// Account and cursor, in case the transaction returns at once.
    pub(super) seat: Seat,
}

/// Reason for which a transaction was removed from a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A transaction with the same sender and nonce paid more.
    Replaced {
        /// Hash of the replacement.
        by: B256,
    },
    /// The pool was full, and the transaction had the lowest worth.
    Evicted,
    /// The owner of the pool has removed it.
    Dropped,
    /// The transaction waited too long.
    Expired,
    /// The state's nonce is past the transaction's: a committed block holds it, or its replacement.
    Passed,
    /// The transaction was executed and is invalid.
    Invalid(InvalidTransaction),
    /// A hard fork has begun that demands other proofs of blobs (EIP-7594).
    Proofs,
    /// The sender has become a contract.
    SenderIsContract,
    /// The sender has begun to delegate (EIP-7702), and keeps one transaction.
    SenderDelegates,
    /// An earlier transaction of the sender was removed, and this one cannot run without it.
    Follows {
        /// Hash of the earlier transaction.
        hash: B256,
    },
    /// The transaction returned and found its place taken, or no place.
    Refused(Refusal),
}

/// Result of a transaction that a builder was handed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The transaction is in the block under construction. The pool keeps it, handed out, until a committed block
    /// passes its nonce or its block is abandoned.
    Included,
    /// The transaction is to be tried again: it escaped, did not fit, or its block was abandoned.
    Returned,
    /// The transaction is invalid at its turn.
    Invalid(InvalidTransaction),
}
