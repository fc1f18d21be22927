//! Statements of a header about the outcome of its block, and their comparison with the outcome.

use super::spec::ChainSpec;
use crate::trie::strings_root;
use alloy_consensus::Header;
use alloy_primitives::{B256, Bloom, Bytes};
use core::fmt;

/// Results of a block that its header states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockOutcome {
    /// Root of the state after the block, of the kind that the chain reports.
    pub state_root: B256,
    /// Root of the receipts; `None` before Byzantium.
    pub receipts_root: Option<B256>,
    /// Bloom of all logs.
    pub logs_bloom: Bloom,
    /// Gas used by all transactions.
    pub gas_used: u64,
    /// Blob gas used by all transactions.
    pub blob_gas_used: u64,
    /// Hash of the requests to consensus, from Prague on (EIP-7685).
    pub requests_hash: Option<B256>,
    /// Hash of the block access list, from Amsterdam on (EIP-7928).
    pub access_list_hash: Option<B256>,
}

impl BlockOutcome {
    /// Writes the results into the header of a block that was built.
    pub fn write_to(&self, header: &mut Header) {
        header.state_root = self.state_root;
        header.receipts_root = self.receipts_root.unwrap_or(header.receipts_root);
        header.logs_bloom = self.logs_bloom;
        header.gas_used = self.gas_used;
        header.blob_gas_used = header.blob_gas_used.map(|_| self.blob_gas_used);
        header.requests_hash = self.requests_hash;
        header.block_access_list_hash = self.access_list_hash;
    }
}

/// A statement of a header that its block does not bear out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutcomeDifference {
    /// The state root.
    StateRoot {
        /// Root after the block.
        expected: B256,
        /// Root in the header.
        got: B256,
    },
    /// The receipts root.
    ReceiptsRoot {
        /// Root of the block's receipts.
        expected: B256,
        /// Root in the header.
        got: B256,
    },
    /// The bloom of all logs.
    LogsBloom,
    /// The gas used.
    GasUsed {
        /// Gas that the block uses.
        expected: u64,
        /// Gas in the header.
        got: u64,
    },
    /// The blob gas used.
    BlobGasUsed {
        /// Blob gas that the block uses.
        expected: u64,
        /// Blob gas in the header.
        got: Option<u64>,
    },
    /// The hash of the requests.
    RequestsHash {
        /// Hash of the block's requests.
        expected: Option<B256>,
        /// Hash in the header.
        got: Option<B256>,
    },
    /// The hash of the block access list.
    AccessListHash {
        /// Hash of what the block touches.
        expected: Option<B256>,
        /// Hash in the header.
        got: Option<B256>,
    },
}

impl fmt::Display for OutcomeDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StateRoot { expected, got } => write!(f, "the state root is {expected}, the header says {got}"),
            Self::ReceiptsRoot { expected, got } => write!(f, "the receipts root is {expected}, the header says {got}"),
            Self::LogsBloom => f.write_str("the header has another logs bloom"),
            Self::GasUsed { expected, got } => write!(f, "the block uses {expected} gas, the header says {got}"),
            Self::BlobGasUsed { expected, got } => {
                write!(f, "the block uses {expected} blob gas, the header says {got:?}")
            }
            Self::RequestsHash { expected, got } => {
                write!(f, "the requests hash is {expected:?}, the header says {got:?}")
            }
            Self::AccessListHash { expected, got } => {
                write!(f, "the hash of the block access list is {expected:?}, the header says {got:?}")
            }
        }
    }
}

/// All statements of a header that its block does not bear out: the block is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", sentence(.differences))]
pub struct OutcomeError {
    /// The differences, at least one.
    pub differences: Vec<OutcomeDifference>,
}

fn sentence(differences: &[OutcomeDifference]) -> String {
    let parts: Vec<String> = differences.iter().map(ToString::to_string).collect();
    parts.join("; ")
}

impl ChainSpec {
    /// Compares all statements of a header about its block's outcome with the outcome.
    /// The state root is of the kind that the engine's chain reports: a header with the other kind differs there.
    ///
    /// # Errors
    /// Every difference.
    pub fn check_outcome(&self, header: &Header, outcome: &BlockOutcome) -> Result<(), OutcomeError> {
        let BlockOutcome {
            state_root,
            receipts_root,
            logs_bloom,
            gas_used,
            blob_gas_used,
            requests_hash,
            access_list_hash,
        } = *outcome;
        let mut differences = Vec::new();
        let mut unless = |equal: bool, difference| {
            if !equal {
                differences.push(difference);
            }
        };
        let (expected, got) = (state_root, header.state_root);
        unless(expected == got, OutcomeDifference::StateRoot { expected, got });
        let (expected, got) = (receipts_root.unwrap_or(header.receipts_root), header.receipts_root);
        unless(expected == got, OutcomeDifference::ReceiptsRoot { expected, got });
        unless(logs_bloom == header.logs_bloom, OutcomeDifference::LogsBloom);
        let (expected, got) = (gas_used, header.gas_used);
        unless(expected == got, OutcomeDifference::GasUsed { expected, got });
        let (expected, got) = (blob_gas_used, header.blob_gas_used);
        unless(expected == got.unwrap_or(0), OutcomeDifference::BlobGasUsed { expected, got });
        let (expected, got) = (requests_hash, header.requests_hash);
        unless(expected == got, OutcomeDifference::RequestsHash { expected, got });
        let (expected, got) = (access_list_hash, header.block_access_list_hash);
        unless(expected == got, OutcomeDifference::AccessListHash { expected, got });
        if differences.is_empty() { Ok(()) } else { Err(OutcomeError { differences }) }
    }
}

/// Root of a block's transactions by their EIP-2718 encodings, as a header commits to it. Hashes in the current rayon pool,
/// or in the global one; O(bytes).
#[must_use]
pub fn transactions_root(txs: &[Bytes]) -> B256 {
    strings_root(txs)
}
