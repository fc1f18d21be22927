//! Validation of a header against its parent.

use super::{
    dao::{DAO_EXTRA_DATA, DAO_EXTRA_RANGE},
    schedule::Merge,
    spec::ChainSpec,
};
use crate::{
    chain::{blobs, fees},
    model::TooWide,
};
use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header};
use alloy_eips::eip4844::DATA_GAS_PER_BLOB;
use alloy_primitives::{B256, U256};
use revm::primitives::hardfork::SpecId;

/// Maximum gas limit: it fits a signed 64-bit number.
const MAX_GAS_LIMIT: u64 = i64::MAX as u64;
/// Maximum length of a header's extra data, in bytes.
const MAX_EXTRA_DATA: usize = 32;

/// Rule that a header breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The number is not the parent's plus one.
    #[error("the number is {got}, after {parent}")]
    Number {
        /// Number of the parent.
        parent: u64,
        /// Number of the header.
        got: u64,
    },
    /// The header follows a different parent.
    #[error("the parent is {got}, not {expected}")]
    ParentHash {
        /// Hash of the parent.
        expected: B256,
        /// Parent hash in the header.
        got: B256,
    },
    /// The timestamp is not after the parent's.
    #[error("the timestamp {got} is not after the parent's, {parent}")]
    Timestamp {
        /// Timestamp of the parent, in seconds.
        parent: u64,
        /// Timestamp of the header, in seconds.
        got: u64,
    },
    /// The gas limit is out of bounds, or too far from its parent's (at the London fork: twice the parent's).
    #[error("the gas limit {got} may not follow {parent}")]
    GasLimit {
        /// Gas limit that it must be close to.
        parent: u128,
        /// Gas limit of the header.
        got: u64,
    },
    /// The block uses more gas than the limit allows.
    #[error("the block uses {used} gas of {limit}")]
    GasUsed {
        /// Gas used.
        used: u64,
        /// Gas limit.
        limit: u64,
    },
    /// The extra data is longer than 32 bytes.
    #[error("the extra data is {len} bytes long")]
    ExtraData {
        /// Length of the extra data, in bytes.
        len: usize,
    },
    /// A chain that follows the DAO fork marks its first ten blocks; any other must not.
    #[error("the extra data is on the wrong side of the DAO fork")]
    DaoExtraData,
    /// The difficulty does not follow from the parent's; from the merge on it is zero.
    #[error("the difficulty is {got} instead of {expected:?}")]
    Difficulty {
        /// Difficulty by the rules; `None` if no number satisfies them.
        expected: Option<U256>,
        /// Difficulty of the header.
        got: U256,
    },
    /// The nonce is not zero, as it must be from the merge on.
    #[error("the nonce is not zero")]
    Nonce,
    /// The block has ommers after the merge.
    #[error("the block has ommers after the merge")]
    Ommers,
    /// The base fee does not follow from the parent's.
    #[error("the base fee is {got} instead of {expected}")]
    BaseFee {
        /// Base fee by the rules, in wei.
        expected: u64,
        /// Base fee of the header, in wei.
        got: u64,
    },
    /// The blob gas used is not that of whole blobs, or of too many.
    #[error("the blob gas used {got} is not that of 0 to {max} blobs")]
    BlobGasUsed {
        /// Blob gas used of the header.
        got: u64,
        /// Maximum of the blob schedule.
        max: u64,
    },
    /// The excess blob gas does not follow from the parent's.
    #[error("the excess blob gas is {got} instead of {expected:?}")]
    ExcessBlobGas {
        /// Excess by the rules; `None` if no number satisfies them.
        expected: Option<u64>,
        /// Excess of the header.
        got: u64,
    },
    /// A number by the rules is wider than the engine's fields.
    #[error(transparent)]
    TooWide(#[from] TooWide),
    /// A field that the fork demands is missing.
    #[error("{field} is missing")]
    Missing {
        /// Name of the field.
        field: &'static str,
    },
    /// A field of a later fork is present.
    #[error("{field} is not due yet")]
    NotDue {
        /// Name of the field.
        field: &'static str,
    },
}

impl ChainSpec {
    /// Checks a header against its parent, which must be valid. Hashes the parent.
    ///
    /// `parent_total_difficulty`, up to and including the parent, decides whether the block must be on proof of stake
    /// where the block number does not. Without it a difficulty of zero is trusted, and required after such a parent.
    ///
    /// # Errors
    /// The first broken rule. Seals and the clock are not checked.
    pub fn validate_header(
        &self,
        header: &Header,
        parent: &Header,
        parent_total_difficulty: Option<U256>,
    ) -> Result<(), HeaderError> {
        let merged = match (self.schedule.merge, parent_total_difficulty) {
            (Merge::At { total_difficulty, .. }, Some(reached)) => reached >= total_difficulty,
            (Merge::At { block: None, .. }, None) => header.difficulty.is_zero() || parent.difficulty.is_zero(),
            _ => self.is_merged(header),
        };
        self.follows(header, parent, merged)
    }

    /// Does [`Self::validate_header`], with the header's side of the merge given.
    pub(super) fn follows(&self, header: &Header, parent: &Header, merged: bool) -> Result<(), HeaderError> {
        if parent.number.checked_add(1) != Some(header.number) {
            return Err(HeaderError::Number { parent: parent.number, got: header.number });
        }
        let expected = parent.hash_slow();
        if header.parent_hash != expected {
            return Err(HeaderError::ParentHash { expected, got: header.parent_hash });
        }
        if header.timestamp <= parent.timestamp {
            return Err(HeaderError::Timestamp { parent: parent.timestamp, got: header.timestamp });
        }
        let spec = self.spec_at(header.number, header.timestamp, merged);
        self.extra_data(header)?;
        self.seal(header, parent, spec, merged)?;
        self.gas(header, parent, spec)?;
        has_fields_of(spec, header)?;
        self.blob_gas(header, parent)
    }

    fn extra_data(&self, header: &Header) -> Result<(), HeaderError> {
        if header.extra_data.len() > MAX_EXTRA_DATA {
            return Err(HeaderError::ExtraData { len: header.extra_data.len() });
        }
        match self.dao {
            Some(dao) if header.number.checked_sub(dao.block).is_some_and(|after| after < DAO_EXTRA_RANGE) => {
                let marked = *header.extra_data == *DAO_EXTRA_DATA;
                if marked == dao.support { Ok(()) } else { Err(HeaderError::DaoExtraData) }
            }
            _ => Ok(()),
        }
    }

    /// Checks the fields of block production, except the seal itself (EIP-3675).
    fn seal(&self, header: &Header, parent: &Header, spec: SpecId, merged: bool) -> Result<(), HeaderError> {
        let expected = if merged { Some(U256::ZERO) } else { self.difficulty(header, parent, spec) };
        if expected != Some(header.difficulty) {
            return Err(HeaderError::Difficulty { expected, got: header.difficulty });
        }
        if merged && !header.nonce.is_zero() {
            return Err(HeaderError::Nonce);
        }
        if merged && header.ommers_hash != EMPTY_OMMER_ROOT_HASH {
            return Err(HeaderError::Ommers);
        }
        Ok(())
    }

    /// Checks gas limit and base fee of a header against its parent's.
    pub(crate) fn validate_gas(&self, header: &Header, parent: &Header) -> Result<(), HeaderError> {
        self.gas(header, parent, self.spec(header))
    }

    fn gas(&self, header: &Header, parent: &Header, spec: SpecId) -> Result<(), HeaderError> {
        let rules = &self.parameters;
        let london = spec.is_enabled_in(SpecId::LONDON);
        let parent_london = self.spec(parent).is_enabled_in(SpecId::LONDON);
        // With the fork, limits grow by the elasticity: the target becomes the former limit.
        let elasticity = if london && !parent_london { rules.base_fee.elasticity_multiplier } else { 1 };
        let around = u128::from(parent.gas_limit).saturating_mul(elasticity);
        let distance = u128::from(header.gas_limit).abs_diff(around);
        let in_bounds = (rules.min_gas_limit..=MAX_GAS_LIMIT).contains(&header.gas_limit);
        let is_far = distance >= around / u128::from(rules.gas_limit_divisor.get()) && !rules.development;
        if is_far || !in_bounds {
            return Err(HeaderError::GasLimit { parent: around, got: header.gas_limit });
        }
        if header.gas_used > header.gas_limit {
            return Err(HeaderError::GasUsed { used: header.gas_used, limit: header.gas_limit });
        }
        let Some(got) = header.base_fee_per_gas.filter(|_| london && !rules.development) else {
            return Ok(()); // missing or not due, which `has_fields_of` tells, or its producer's choice
        };
        let expected = match parent.base_fee_per_gas.filter(|_| parent_london) {
            Some(fee) => {
                fees::next_base_fee(rules.base_fee, parent.gas_used, parent.gas_limit, fee).ok_or(TooWide::BASE_FEE)?
            }
            None => rules.initial_base_fee,
        };
        if expected == got { Ok(()) } else { Err(HeaderError::BaseFee { expected, got }) }
    }

    fn blob_gas(&self, header: &Header, parent: &Header) -> Result<(), HeaderError> {
        let (Some(used), Some(excess), Some(params)) =
            (header.blob_gas_used, header.excess_blob_gas, self.blob_params(header.timestamp))
        else {
            return Ok(()); // before Cancun, as `has_fields_of` has checked
        };
        if used % DATA_GAS_PER_BLOB != 0 || used > params.max_blob_gas_per_block() {
            return Err(HeaderError::BlobGasUsed { got: used, max: params.max_blob_count });
        }
        let expected = blobs::next_excess(
            &params,
            parent.excess_blob_gas.unwrap_or_default(),
            parent.blob_gas_used.unwrap_or_default(),
            parent.base_fee_per_gas.unwrap_or_default(),
        );
        if expected != Some(excess) {
            return Err(HeaderError::ExcessBlobGas { expected, got: excess });
        }
        // The largest price stands for all that are larger.
        if params.calc_blob_fee(excess) == u128::MAX { Err(TooWide::BLOB_BASE_FEE.into()) } else { Ok(()) }
    }
}

/// Checks that every optional field is present from its fork on, and not before.
fn has_fields_of(spec: SpecId, header: &Header) -> Result<(), HeaderError> {
    let fields = [
        ("the base fee", SpecId::LONDON, header.base_fee_per_gas.is_some()),
        ("the withdrawals root", SpecId::SHANGHAI, header.withdrawals_root.is_some()),
        ("blob gas used", SpecId::CANCUN, header.blob_gas_used.is_some()),
        ("excess blob gas", SpecId::CANCUN, header.excess_blob_gas.is_some()),
        ("the parent beacon block root", SpecId::CANCUN, header.parent_beacon_block_root.is_some()),
        ("the requests hash", SpecId::PRAGUE, header.requests_hash.is_some()),
        ("the block access list hash", SpecId::AMSTERDAM, header.block_access_list_hash.is_some()),
        ("the slot number", SpecId::AMSTERDAM, header.slot_number.is_some()),
    ];
    for (field, from, present) in fields {
        match (spec.is_enabled_in(from), present) {
            (true, false) => return Err(HeaderError::Missing { field }),
            (false, true) => return Err(HeaderError::NotDue { field }),
            _ => {}
        }
    }
    Ok(())
}
