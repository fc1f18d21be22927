use super::{PooledTx, queue::Seat};
use alloy_primitives::{B256, U256};
use revm::context_interface::result::InvalidTransaction;
use std::sync::Arc;

/// What became of a transaction that was handed to a pool.
#[derive(Clone, Debug)]
#[must_use = "a refused transaction is gone unless its sender is told"]
pub enum Admission {
    /// It is in the pool.
    Admitted {
        /// As the pool holds it.
        tx: Arc<PooledTx>,
        /// Whether it can run once those before it did, by what is known now.
        is_ready: bool,
        /// What had to go for it.
        removed: Vec<Removed>,
    },
    /// It is not, and nothing has changed.
    Refused(Refusal),
}

/// Why a pool does not take a transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is in the pool.
    #[error("it is in the pool already")]
    Known,
    /// It is too long.
    #[error("its {len} bytes are more than {max}")]
    TooLong {
        /// Bytes of its encoding.
        len: usize,
        /// Most that are allowed.
        max: usize,
    },
    /// No block has room for it.
    #[error("its gas limit {gas_limit} is more than {max}")]
    TooMuchGas {
        /// Its gas limit.
        gas_limit: u64,
        /// Most that is allowed.
        max: u64,
    },
    /// Its gas limit does not pay for its bytes.
    #[error("its gas limit {gas_limit} is less than the {least} that it takes before it begins")]
    TooLittleGas {
        /// Its gas limit.
        gas_limit: u64,
        /// Intrinsic gas, or the floor for calldata.
        least: u64,
    },
    /// It pays too little.
    #[error("it pays at most {cap} wei per gas and {tip} as a tip; the least is {min_cap} and {min_tip}")]
    Underpriced {
        /// Its highest price per gas.
        cap: u128,
        /// Its highest tip per gas.
        tip: u128,
        /// Least price.
        min_cap: u128,
        /// Least tip.
        min_tip: u128,
    },
    /// The tip exceeds the whole price (EIP-1559).
    #[error("its tip {tip} is more than its price {cap}")]
    TipAboveCap {
        /// Its highest price per gas.
        cap: u128,
        /// Its highest tip per gas.
        tip: u128,
    },
    /// The sender's nonce is further, or the transaction at this nonce has been executed in a block that is not committed.
    #[error("its nonce {nonce} is used; the sender's next is {next}")]
    NonceUsed {
        /// Its nonce.
        nonce: u64,
        /// The sender's.
        next: u64,
    },
    /// The nonce is too far ahead of the sender's.
    #[error("its nonce {nonce} is not among the {window} from {next} on")]
    NonceTooFar {
        /// Its nonce.
        nonce: u64,
        /// The sender's.
        next: u64,
        /// How many nonces the pool looks ahead.
        window: u64,
    },
    /// The sender cannot pay for it alone.
    #[error("it may cost {cost} wei, and its sender has {balance}")]
    Funds {
        /// Most that it can cost.
        cost: U256,
        /// What the sender has.
        balance: U256,
    },
    /// It may cost more than there is: 2^256 wei.
    #[error("it may cost more than 2^256 wei")]
    CostOverflow,
    /// The sender has code (EIP-3607).
    #[error("its sender is a contract")]
    SenderIsContract,
    /// It does not pay enough to replace another one of its sender and nonce.
    #[error("to replace {hash} it must exceed its prices by {bump} percent")]
    ReplacementUnderpriced {
        /// The one that stays.
        hash: B256,
        /// The least raise, percent.
        bump: u64,
    },
    /// A builder has the one of its sender and nonce.
    #[error("{hash}, which it would replace, is being executed")]
    InFlight {
        /// The one that stays.
        hash: B256,
    },
    /// The sender holds too many bytes already.
    #[error("its sender's transactions would take {bytes} bytes of at most {max}")]
    SenderFull {
        /// With it.
        bytes: usize,
        /// Most that are allowed.
        max: usize,
    },
    /// The pool is full of transactions that pay at least as much.
    #[error("the pool is full of transactions that are worth more")]
    Full,
}

/// A transaction that left a pool, and why.
#[derive(Clone, Debug)]
pub struct Removed {
    /// The transaction.
    pub tx: Arc<PooledTx>,
    /// Why it left.
    pub cause: Cause,
    /// What was known of its sender, in case it comes back at once.
    pub(super) seat: Seat,
}

/// Why a transaction left a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Its sender paid more for another one of the same nonce.
    Replaced {
        /// The other one.
        by: B256,
    },
    /// The pool was full, and it was worth least.
    Evicted,
    /// It waited too long.
    Expired,
    /// The state's nonce is beyond its own: it, or another in its place, is in a committed block.
    Passed,
    /// It was executed and is invalid.
    Invalid(InvalidTransaction),
    /// Its sender has become a contract.
    SenderIsContract,
    /// It has no chance without one of its sender that left for another reason.
    Follows {
        /// That one.
        hash: B256,
    },
    /// It came back and found its place taken, or no place.
    Refused(Refusal),
}

/// What a builder says of a transaction that it was handed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is in the block that is being built. It stays with the pool, handed out, until a committed block has passed its
    /// nonce or it is returned because the block was given up.
    Included,
    /// It is not, and is to be tried again: it escaped, did not fit, or the block was given up.
    Returned,
    /// It is invalid where its turn came.
    Invalid(InvalidTransaction),
}
