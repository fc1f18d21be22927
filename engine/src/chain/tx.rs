//! Validation of a transaction by the rules of a fork that need no state.

use super::spec::ChainSpec;
use alloy_consensus::{Transaction as _, TxEip4844Variant, TxEnvelope, TxType};
use alloy_eips::{
    eip4844::VERSIONED_HASH_VERSION_KZG, eip7594::MAX_BLOBS_PER_TX_FUSAKA, eip7825::MAX_TX_GAS_LIMIT_OSAKA,
};
use alloy_primitives::ChainId;
use revm::primitives::hardfork::SpecId;

/// Rule that a transaction breaks, in any state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TxRuleError {
    /// The type comes with a later fork.
    #[error("type {tx_type:?} is not known to {spec:?}")]
    Type {
        /// Type of the transaction.
        tx_type: TxType,
        /// The spec in force.
        spec: SpecId,
    },
    /// The signature's s is in the upper half (EIP-2).
    #[error("the signature is malleable: s is in the upper half")]
    HighS,
    /// The transaction is for a different chain, or names a chain before EIP-155.
    #[error("the chain id is {got}, the chain's {expected:?}")]
    ChainId {
        /// Id of the chain; `None` before EIP-155.
        expected: Option<ChainId>,
        /// Id in the transaction.
        got: ChainId,
    },
    /// A blob transaction in a block comes without its blobs.
    #[error("a blob transaction in a block comes without its blobs")]
    Sidecar,
    /// A blob transaction has at least one blob, and at most six from Osaka on (EIP-4844, 7594).
    #[error("the transaction carries {blobs} blobs")]
    BlobCount {
        /// Number of blobs.
        blobs: usize,
    },
    /// The hash of a blob has an unknown version.
    #[error("the hash of blob {index} has an unknown version")]
    BlobVersion {
        /// Position in the transaction.
        index: usize,
    },
    /// A set-code transaction has at least one authorization (EIP-7702).
    #[error("the authorization list is empty")]
    NoAuthorizations,
    /// The gas limit exceeds the cap (EIP-7825).
    #[error("the gas limit {gas_limit} is above {MAX_TX_GAS_LIMIT_OSAKA}")]
    GasLimit {
        /// Gas limit of the transaction.
        gas_limit: u64,
    },
}

impl ChainSpec {
    /// Checks the rules on a transaction that depend on the fork alone. Execution checks balance, nonce, fees and
    /// intrinsic gas; recovery checks the signature. Recovery must accept an s in the upper half before Homestead.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn validate_tx(&self, spec: SpecId, tx: &TxEnvelope) -> Result<(), TxRuleError> {
        let tx_type = tx.tx_type();
        let since = match tx_type {
            TxType::Legacy => SpecId::FRONTIER,
            TxType::Eip2930 => SpecId::BERLIN,
            TxType::Eip1559 => SpecId::LONDON,
            TxType::Eip4844 => SpecId::CANCUN,
            TxType::Eip7702 => SpecId::PRAGUE,
        };
        if !spec.is_enabled_in(since) {
            return Err(TxRuleError::Type { tx_type, spec });
        }
        if spec.is_enabled_in(SpecId::HOMESTEAD) && tx.signature().normalize_s().is_some() {
            return Err(TxRuleError::HighS);
        }
        let expected = Some(self.chain_id).filter(|_| spec.is_enabled_in(SpecId::SPURIOUS_DRAGON));
        if let Some(got) = tx.chain_id()
            && expected != Some(got)
        {
            return Err(TxRuleError::ChainId { expected, got });
        }
        if spec.is_enabled_in(SpecId::OSAKA) && tx.gas_limit() > MAX_TX_GAS_LIMIT_OSAKA {
            return Err(TxRuleError::GasLimit { gas_limit: tx.gas_limit() });
        }
        match tx {
            TxEnvelope::Eip4844(signed) => match signed.tx() {
                TxEip4844Variant::TxEip4844WithSidecar(_) => Err(TxRuleError::Sidecar),
                TxEip4844Variant::TxEip4844(tx) => {
                    let blobs = tx.blob_versioned_hashes.len();
                    if blobs == 0 || (spec.is_enabled_in(SpecId::OSAKA) && blobs as u64 > MAX_BLOBS_PER_TX_FUSAKA) {
                        return Err(TxRuleError::BlobCount { blobs });
                    }
                    let unknown =
                        tx.blob_versioned_hashes.iter().position(|hash| hash[0] != VERSIONED_HASH_VERSION_KZG);
                    unknown.map_or(Ok(()), |index| Err(TxRuleError::BlobVersion { index }))
                }
            },
            TxEnvelope::Eip7702(signed) if signed.tx().authorization_list.is_empty() => {
                Err(TxRuleError::NoAuthorizations)
            }
            _ => Ok(()),
        }
    }
}
