//! Validation of a transaction by the rules of a fork that need no state.

use super::spec::ChainSpec;
use alloy_consensus::{Transaction as _, TxEip4844Variant, TxEnvelope, TxType};
use alloy_eips::{
    eip4844::VERSIONED_HASH_VERSION_KZG, eip7594::MAX_BLOBS_PER_TX_FUSAKA, eip7825::MAX_TX_GAS_LIMIT_OSAKA,
};
use alloy_primitives::ChainId;
use revm::{
    context::CfgEnv,
    primitives::{eip3860, eip7954, hardfork::SpecId},
};

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
    #[error("the chain id is {got}, the chain's is {}", .expected.map_or("none (EIP-155)".into(), |id| id.to_string()))]
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
    /// The gas limit exceeds the cap (EIP-7825, or the chain's own).
    #[error("the gas limit {gas_limit} is above {max}")]
    GasLimit {
        /// Gas limit of the transaction.
        gas_limit: u64,
        /// Maximum gas limit.
        max: u64,
    },
    /// The initcode is longer than the chain allows (EIP-3860, or the chain's own limit).
    #[error("the initcode has {len} bytes, more than {max}")]
    Initcode {
        /// Length of the initcode, in bytes.
        len: usize,
        /// Maximum length, in bytes.
        max: usize,
    },
    /// The maximum tip exceeds the maximum fee (EIP-1559).
    #[error("the maximum tip of {tip} wei per gas is above the maximum fee of {fee}")]
    TipAboveFee {
        /// Maximum tip, in wei per gas.
        tip: u128,
        /// Maximum fee, in wei per gas.
        fee: u128,
    },
    /// The transaction names no chain, and the chain demands it: see
    /// [`Parameters::unprotected_txs`](super::Parameters::unprotected_txs).
    #[error("the transaction names no chain, and this chain demands its id")]
    Unprotected,
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
        if expected.is_some() && tx.chain_id().is_none() && !self.parameters.unprotected_txs {
            return Err(TxRuleError::Unprotected);
        }
        let cap = if spec.is_enabled_in(SpecId::OSAKA) { MAX_TX_GAS_LIMIT_OSAKA } else { u64::MAX };
        // From Amsterdam on the cap bounds gas of execution alone (EIP-8037): what is above it pays for state.
        let cap = self.base.tx_gas_limit_cap.unwrap_or(cap);
        let (gas_limit, max) = (tx.gas_limit(), if spec.is_enabled_in(SpecId::AMSTERDAM) { u64::MAX } else { cap });
        if gas_limit > max {
            return Err(TxRuleError::GasLimit { gas_limit, max });
        }
        let (len, max) = (tx.input().len(), self.max_initcode(spec));
        if tx.is_create() && spec.is_enabled_in(SpecId::SHANGHAI) && len > max {
            return Err(TxRuleError::Initcode { len, max });
        }
        let (tip, fee) = (tx.max_priority_fee_per_gas().unwrap_or_default(), tx.max_fee_per_gas());
        if tip > fee {
            return Err(TxRuleError::TipAboveFee { tip, fee });
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

    /// Maximum length of initcode (EIP-3860, 7954), as revm has it: no configuration is made for a transaction.
    fn max_initcode(&self, spec: SpecId) -> usize {
        let is_larger = spec.is_enabled_in(SpecId::AMSTERDAM);
        let usual = if is_larger { eip7954::MAX_INITCODE_SIZE } else { eip3860::MAX_INITCODE_SIZE };
        let CfgEnv { limit_contract_code_size: code, limit_contract_initcode_size: own, .. } = self.base;
        own.or_else(|| code.map(|size| size.saturating_mul(2))).unwrap_or(usual)
    }
}
