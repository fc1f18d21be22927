//! Validation of a body against the roots of its header.

use super::spec::ChainSpec;
use alloy_consensus::{Header, Transaction as _, TxEnvelope, proofs};
use alloy_eips::{eip4844::DATA_GAS_PER_BLOB, eip4895::Withdrawal};
use alloy_primitives::B256;
use revm::primitives::hardfork::SpecId;

/// Maximum length of a block's RLP encoding from Osaka on, in bytes: 10 MiB less 2 MiB for the consensus layer
/// (EIP-7934).
pub const MAX_BLOCK_RLP: usize = 8 << 20;

/// Rule that a body breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The header commits to other transactions.
    #[error("the transactions root is {expected}, the header says {got}")]
    TransactionsRoot {
        /// Root of the transactions given.
        expected: B256,
        /// Root in the header.
        got: B256,
    },
    /// The header commits to other ommers.
    #[error("the ommers hash is {expected}, the header says {got}")]
    OmmersHash {
        /// Hash of the ommers given.
        expected: B256,
        /// Hash in the header.
        got: B256,
    },
    /// The header commits to other withdrawals, or one of the two has none.
    #[error("the withdrawals root is {expected:?}, the header says {got:?}")]
    WithdrawalsRoot {
        /// Root of the withdrawals given, if a list is given.
        expected: Option<B256>,
        /// Root in the header.
        got: Option<B256>,
    },
    /// The header's blob gas differs from its transactions'.
    #[error("the transactions use {expected} blob gas, the header says {got:?}")]
    BlobGasUsed {
        /// Blob gas of the transactions.
        expected: u64,
        /// Blob gas in the header.
        got: Option<u64>,
    },
    /// More blobs than a block may carry.
    #[error("{blobs} blobs are more than {max}")]
    TooManyBlobs {
        /// Number of blobs of the transactions.
        blobs: u64,
        /// Maximum of the blob schedule.
        max: u64,
    },
    /// The block is too long (EIP-7934).
    #[error("the encoding is {len} bytes long, more than {MAX_BLOCK_RLP}")]
    Size {
        /// Length of the block's RLP encoding, in bytes.
        len: usize,
    },
}

impl ChainSpec {
    /// Checks a body against its header, which must be valid. `rlp_len` is the length of the whole block's encoding,
    /// if known; without it that rule is not checked. O(bytes of the body), on the calling thread.
    ///
    /// [`Self::validate_tx`] checks the transactions themselves, [`Self::validate_ommers`] the ommers.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn validate_body(
        &self,
        header: &Header,
        txs: &[TxEnvelope],
        ommers: &[Header],
        withdrawals: Option<&[Withdrawal]>,
        rlp_len: Option<usize>,
    ) -> Result<(), BodyError> {
        let spec = self.spec(header);
        if let Some(len) = rlp_len
            && spec.is_enabled_in(SpecId::OSAKA)
            && len > MAX_BLOCK_RLP
        {
            return Err(BodyError::Size { len });
        }
        let expected = proofs::calculate_transaction_root(txs);
        if expected != header.transactions_root {
            return Err(BodyError::TransactionsRoot { expected, got: header.transactions_root });
        }
        let expected = proofs::calculate_ommers_root(ommers);
        if expected != header.ommers_hash {
            return Err(BodyError::OmmersHash { expected, got: header.ommers_hash });
        }
        let expected = withdrawals.map(proofs::calculate_withdrawals_root);
        if expected != header.withdrawals_root {
            return Err(BodyError::WithdrawalsRoot { expected, got: header.withdrawals_root });
        }
        let blobs = txs.iter().filter_map(|tx| tx.blob_versioned_hashes()).map(|hashes| hashes.len() as u64).sum();
        let max = self.blob_params(header.timestamp).filter(|_| spec.is_enabled_in(SpecId::CANCUN));
        let max = max.map_or(0, |params| params.max_blob_count);
        if blobs > max {
            return Err(BodyError::TooManyBlobs { blobs, max });
        }
        let expected = blobs * DATA_GAS_PER_BLOB;
        if header.blob_gas_used.unwrap_or(0) != expected {
            return Err(BodyError::BlobGasUsed { expected, got: header.blob_gas_used });
        }
        Ok(())
    }
}
