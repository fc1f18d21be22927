//! A whole block from consensus, and the reasons why one is invalid.

use crate::model::{AccessListFault, Error};
use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B256};
use phalanx_access::AccessSets;
use phalanx_paralyze::StateKey;
use revm::{context::TxEnv, context_interface::result::InvalidTransaction};

/// A block of a chain in its given order, with recovered senders.
#[derive(Clone, Copy, Debug)]
pub struct RecoveredBlock<'a> {
    /// Header of the block. Fields about the outcome (gas used, roots, bloom) are ignored: the caller compares them.
    pub header: &'a Header,
    /// Transactions of the block.
    pub txs: &'a [TxEnv],
    /// Headers of the ommers.
    pub ommers: &'a [Header],
    /// Withdrawals (EIP-4895).
    pub withdrawals: Option<&'a [Withdrawal]>,
}

/// Accesses of a block that are known before execution. A hint changes only the speed of a block; a list that the block
/// commits to is not a hint but a part of the block.
#[derive(Clone, Copy, Debug)]
pub enum Hints<'a> {
    /// ParaLyze predicts the accesses.
    Predict,
    /// No predictions: the block runs on Block-STM.
    None,
    /// A set per transaction, in order, from any source, trusted or not: a block access list, a trace, a peer.
    Sets(&'a AccessSets<StateKey>),
    /// Result of [`crate::Engine::exceptions`] for the block: sets of the transactions that no rule predicts; ParaLyze
    /// predicts the others by rule. Malformed bytes are no worse than [`Self::Predict`].
    Exceptions(&'a [u8]),
    /// The access list that the block commits to (EIP-7928). The block is valid only if its accesses equal the list.
    AccessList {
        /// The encoded list.
        rlp: &'a [u8],
        /// Keccak-256 of the list, to which the block commits: from Amsterdam on the header's `block_access_list_hash`.
        hash: B256,
    },
}

/// Reason why a block is invalid, or could not be executed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// A transaction is invalid at its place, and no earlier one is.
    #[error("transaction {index} is invalid: {reason}")]
    InvalidTransaction {
        /// Position in the block.
        index: usize,
        /// Reason given by revm.
        reason: InvalidTransaction,
    },
    /// A transaction may use more gas than the block has left.
    #[error("transaction {index} has a gas limit of {gas_limit}, and the block has {left} gas left")]
    GasLimit {
        /// Position in the block.
        index: usize,
        /// Gas limit of the transaction.
        gas_limit: u64,
        /// Rest of the block's gas limit after the earlier transactions.
        left: u64,
    },
    /// A system call found no contract or did not succeed (EIP-7002, EIP-7251).
    #[error("the system contract {address} {what}")]
    SystemContract {
        /// Address of the contract.
        address: Address,
        /// Missing property.
        what: &'static str,
    },
    /// The deposit contract logged something that is not a deposit (EIP-6110).
    #[error("the deposit contract logged something that is not a deposit: {what}")]
    Deposit {
        /// Description of the fault.
        what: String,
    },
    /// The block's access list differs from the block's accesses.
    #[error("the block access list is wrong{}: {what}", at(index))]
    AccessList {
        /// Lowest step that differs from the list: 0 for the steps before the transactions, *i* for the *i*-th
        /// transaction, one more for the steps after them. `None` if the list is refused as a whole.
        index: Option<usize>,
        /// Fault of the list. Any one of several faults at a step may be reported.
        what: AccessListFault,
    },
    /// There must be one hint per transaction.
    #[error("there are {hints} access sets for {txs} transactions")]
    Hints {
        /// Number of sets.
        hints: usize,
        /// Number of transactions.
        txs: usize,
    },
    /// The engine failed; the block may be valid.
    #[error(transparent)]
    Engine(#[from] Error),
}

fn at(index: &Option<usize>) -> String {
    index.map_or_else(String::new, |index| format!(" at index {index}"))
}
