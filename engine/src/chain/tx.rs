//! What a transaction must be to be in a block of a fork at all.

use super::spec::ChainSpec;
use alloy_consensus::{Transaction as _, TxEip4844Variant, TxEnvelope, TxType};
use alloy_eips::{
    eip4844::VERSIONED_HASH_VERSION_KZG, eip7594::MAX_BLOBS_PER_TX_FUSAKA, eip7825::MAX_TX_GAS_LIMIT_OSAKA,
};
use alloy_primitives::ChainId;
use revm::primitives::hardfork::SpecId;

/// The rule that a transaction breaks, whatever the state is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TxRuleError {
    /// Its type comes with a later fork.
    #[error("type {tx_type:?} is not known to {spec:?}")]
    Type {
        /// The transaction's.
        tx_type: TxType,
        /// The spec in force.
        spec: SpecId,
    },
    /// The signature's s is in the upper half (EIP-2).
    #[error("its signature is malleable: s is in the upper half")]
    HighS,
    /// It is for another chain, or for one at all before EIP-155.
    #[error("its chain id is {got}, the chain's {expected:?}")]
    ChainId {
        /// The chain's; `None` before EIP-155.
        expected: Option<ChainId>,
        /// The transaction's.
        got: ChainId,
    },
    /// A blob transaction in a block comes without its blobs.
    #[error("its blobs are with it")]
    Sidecar,
    /// A blob transaction has at least one blob, and at most six from Osaka on (EIP-4844, 7594).
    #[error("it carries {blobs} blobs")]
    BlobCount {
        /// How many it has.
        blobs: usize,
    },
    /// The hash of a blob is of a version that is not known.
    #[error("the hash of blob {index} has an unknown version")]
    BlobVersion {
        /// Position in the transaction.
        index: usize,
    },
    /// A set-code transaction has at least one authorization (EIP-7702).
    #[error("its authorization list is empty")]
    NoAuthorizations,
    /// Its gas limit exceeds the cap (EIP-7825).
    #[error("its gas limit {gas_limit} is more than {MAX_TX_GAS_LIMIT_OSAKA}")]
    GasLimit {
        /// The transaction's.
        gas_limit: u64,
    },
}

impl ChainSpec {
    /// Checks the rules on a transaction that depend on the fork alone. Balance, nonce, fees and intrinsic gas are checked
    /// when it is executed, the signature when its sender is recovered; that must accept an s in the upper half before
    /// Homestead.
    ///
    /// # Errors
    /// The first rule broken.
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
