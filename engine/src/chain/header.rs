//! Which headers may follow which.

use super::{
    blobs,
    dao::{DAO_EXTRA_DATA, DAO_EXTRA_RANGE},
    fees,
    schedule::Merge,
    spec::ChainSpec,
};
use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header};
use alloy_eips::eip4844::DATA_GAS_PER_BLOB;
use alloy_primitives::{B256, U256};
use revm::primitives::hardfork::SpecId;

/// The greatest gas limit: signed 64-bit numbers hold it.
const MAX_GAS_LIMIT: u64 = i64::MAX as u64;
/// The greatest length of a header's extra data, bytes.
const MAX_EXTRA_DATA: usize = 32;

/// The rule that a header breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Numbers count up by one.
    #[error("its number is {got}, after {parent}")]
    Number {
        /// The parent's.
        parent: u64,
        /// The header's.
        got: u64,
    },
    /// It follows another header.
    #[error("its parent is {got}, not {expected}")]
    ParentHash {
        /// Hash of the parent.
        expected: B256,
        /// What the header says.
        got: B256,
    },
    /// Time goes forward.
    #[error("its timestamp {got} is not after its parent's, {parent}")]
    Timestamp {
        /// The parent's, seconds.
        parent: u64,
        /// The header's, seconds.
        got: u64,
    },
    /// The gas limit is out of bounds, or too far from its parent's (at the London fork: twice the parent's).
    #[error("its gas limit {got} may not follow {parent}")]
    GasLimit {
        /// What it may be close to.
        parent: u128,
        /// The header's.
        got: u64,
    },
    /// More gas used than the limit allows.
    #[error("it uses {used} gas of {limit}")]
    GasUsed {
        /// Gas used.
        used: u64,
        /// Gas limit.
        limit: u64,
    },
    /// At most 32 bytes of extra data.
    #[error("its extra data is {len} bytes long")]
    ExtraData {
        /// How many bytes there are.
        len: usize,
    },
    /// A chain that follows the DAO fork marks its first ten blocks; another one may not.
    #[error("its extra data is on the wrong side of the DAO fork")]
    DaoExtraData,
    /// Not the difficulty that follows from the parent, zero from the merge on.
    #[error("its difficulty is {got} instead of {expected:?}")]
    Difficulty {
        /// The difficulty by the rules; `None` if no number satisfies them.
        expected: Option<U256>,
        /// The header's.
        got: U256,
    },
    /// From the merge on the nonce is zero.
    #[error("its nonce is not zero")]
    Nonce,
    /// From the merge on there are no ommers.
    #[error("it has ommers after the merge")]
    Ommers,
    /// Not the base fee that follows from the parent.
    #[error("its base fee is {got} instead of {expected:?}")]
    BaseFee {
        /// The base fee by the rules, wei; `None` if no number satisfies them.
        expected: Option<u64>,
        /// The header's, wei.
        got: u64,
    },
    /// Blob gas used is not a number of whole blobs, or of too many.
    #[error("its blob gas used {got} is not that of 0 to {max} blobs")]
    BlobGasUsed {
        /// The header's.
        got: u64,
        /// Maximum of the blob schedule.
        max: u64,
    },
    /// Not the excess blob gas that follows from the parent.
    #[error("its excess blob gas is {got} instead of {expected:?}")]
    ExcessBlobGas {
        /// The excess by the rules; `None` if no number satisfies them.
        expected: Option<u64>,
        /// The header's.
        got: u64,
    },
    /// A field that the fork demands is missing.
    #[error("{field} is missing")]
    Missing {
        /// Which one.
        field: &'static str,
    },
    /// A field of a later fork is there.
    #[error("{field} is not due yet")]
    NotDue {
        /// Which one.
        field: &'static str,
    },
}

impl ChainSpec {
    /// Checks a header against its parent, which is valid itself. Hashes the parent.
    ///
    /// `parent_total_difficulty`, up to and with the parent, decides whether the block must be on proof of stake where
    /// that is not known by number. Without it a difficulty of zero is believed, and after such a parent demanded.
    ///
    /// # Errors
    /// The first rule broken. Seals and the clock are not looked at.
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

    /// [`Self::validate_header`], given on which side of the merge the header must be.
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

    /// What a header says about how it was made, but for the seal itself (EIP-3675).
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

    fn gas(&self, header: &Header, parent: &Header, spec: SpecId) -> Result<(), HeaderError> {
        let rules = &self.parameters;
        let london = spec.is_enabled_in(SpecId::LONDON);
        let parent_london = self.spec(parent).is_enabled_in(SpecId::LONDON);
        // With the fork, limits grow by the elasticity, so that the target is what the limit was.
        let elasticity = if london && !parent_london { rules.base_fee.elasticity_multiplier } else { 1 };
        let around = u128::from(parent.gas_limit).saturating_mul(elasticity);
        let distance = u128::from(header.gas_limit).abs_diff(around);
        let in_bounds = (rules.min_gas_limit..=MAX_GAS_LIMIT).contains(&header.gas_limit);
        if distance >= around / u128::from(rules.gas_limit_divisor.get()) || !in_bounds {
            return Err(HeaderError::GasLimit { parent: around, got: header.gas_limit });
        }
        if header.gas_used > header.gas_limit {
            return Err(HeaderError::GasUsed { used: header.gas_used, limit: header.gas_limit });
        }
        let Some(got) = header.base_fee_per_gas.filter(|_| london) else {
            return Ok(()); // missing or not due, which `has_fields_of` tells
        };
        let expected = match parent.base_fee_per_gas.filter(|_| parent_london) {
            Some(fee) => fees::next_base_fee(rules.base_fee, parent.gas_used, parent.gas_limit, fee),
            None => Some(rules.initial_base_fee),
        };
        if expected == Some(got) { Ok(()) } else { Err(HeaderError::BaseFee { expected, got }) }
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
        if expected == Some(excess) { Ok(()) } else { Err(HeaderError::ExcessBlobGas { expected, got: excess }) }
    }
}

/// Every optional field is there from its fork on, and not before.
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
