//! A whole block as consensus hands it over, and why one is not valid.

use crate::model::{AccessListFault, Error};
use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B256};
use phalanx_access::AccessSets;
use phalanx_paralyze::StateKey;
use revm::{context::TxEnv, context_interface::result::InvalidTransaction};

/// A block of a chain, in the order that it has. Senders are recovered already.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    /// Its header. What the header says of the outcome (gas used, roots, bloom) is not looked at: the caller compares.
    pub header: &'a Header,
    /// Its transactions.
    pub txs: &'a [TxEnv],
    /// Headers of its uncles.
    pub ommers: &'a [Header],
    /// Its withdrawals (EIP-4895).
    pub withdrawals: Option<&'a [Withdrawal]>,
}

/// What is known in advance of what a block's transactions touch. A hint changes how fast a block runs, and nothing else;
/// a list that the block commits to is no hint but a part of the block.
#[derive(Clone, Copy, Debug)]
pub enum Hints<'a> {
    /// ParaLyze predicts.
    Predict,
    /// Nothing: the block runs on Block-STM.
    None,
    /// A set per transaction, in order, from anywhere: a block access list, a trace, a liar.
    Sets(&'a AccessSets<StateKey>),
    /// What [`crate::Engine::exceptions`] gave for the block: sets of the transactions that no rule predicts; ParaLyze
    /// predicts the others by rule. Bytes that are malformed are no worse than [`Self::Predict`].
    Exceptions(&'a [u8]),
    /// The access list that the block commits to (EIP-7928). The block is valid only if this is what it does.
    AccessList {
        /// The list, as it was sent.
        rlp: &'a [u8],
        /// What the block commits to, Keccak-256 of the list: from Amsterdam on the header's `block_access_list_hash`.
        hash: B256,
    },
}

/// Why a block is not valid, or could not be executed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// A transaction is invalid where it stands: no earlier one is.
    #[error("transaction {index} is invalid: {reason}")]
    InvalidTransaction {
        /// Its position in the block.
        index: usize,
        /// revm's reason.
        reason: InvalidTransaction,
    },
    /// A transaction may use more gas than the block has left.
    #[error("transaction {index} has a gas limit of {gas_limit}, and the block has {left} gas left")]
    GasLimit {
        /// Its position in the block.
        index: usize,
        /// Its gas limit.
        gas_limit: u64,
        /// What earlier transactions have left of the block's gas limit.
        left: u64,
    },
    /// A call that the protocol makes found no contract or did not succeed (EIP-7002, EIP-7251).
    #[error("the system contract {address} {what}")]
    SystemContract {
        /// The contract.
        address: Address,
        /// What it lacks.
        what: &'static str,
    },
    /// The deposit contract logged something that is not a deposit (EIP-6110).
    #[error("the deposit contract logged something that is not a deposit: {what}")]
    Deposit {
        /// What is wrong.
        what: String,
    },
    /// The block's access list is not what the block does.
    #[error("the block access list is wrong{}: {what}", at(index))]
    AccessList {
        /// The lowest step that does something else than the list says: 0 is what precedes the transactions, *i* the
        /// *i*-th of them, one more what follows them. `None` if the list is refused as a whole.
        index: Option<usize>,
        /// What is wrong. Of several things at one step any may be named.
        what: AccessListFault,
    },
    /// There must be one hint per transaction.
    #[error("there are {hints} access sets for {txs} transactions")]
    Hints {
        /// How many sets there are.
        hints: usize,
        /// How many transactions there are.
        txs: usize,
    },
    /// The engine failed; that says nothing about the block.
    #[error(transparent)]
    Engine(#[from] Error),
}

fn at(index: &Option<usize>) -> String {
    index.map_or_else(String::new, |index| format!(" at index {index}"))
}
