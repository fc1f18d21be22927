//! Headers that follow from a genesis or a parent: what a block's producer writes before the block runs.

use super::{
    header::HeaderError,
    spec::{ChainSpec, Parameters},
};
use crate::{
    chain::{blobs, fees},
    model::TooWide,
};
use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, EMPTY_ROOT_HASH, Header, proofs};
use alloy_eips::{eip4895::Withdrawal, eip7685::EMPTY_REQUESTS_HASH, eip7928::constants::EMPTY_BLOCK_ACCESS_LIST_HASH};
use alloy_genesis::Genesis;
use alloy_primitives::{Address, B256, Bytes};
use revm::primitives::hardfork::SpecId;

/// Fields of a block that its producer chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Seconds since 1970, after the parent's.
    pub timestamp: u64,
    /// Account that gets the fees.
    pub beneficiary: Address,
    /// Randomness of the block, from the merge on.
    pub prevrandao: B256,
    /// Gas limit; `None` for the parent's (at the London fork: times the elasticity).
    pub gas_limit: Option<u64>,
    /// Withdrawals, from Shanghai on.
    pub withdrawals: Vec<Withdrawal>,
    /// Root of the parent's beacon block, from Cancun on (EIP-4788).
    pub parent_beacon_block_root: B256,
    /// Extra data, at most 32 bytes.
    pub extra_data: Bytes,
    /// Slot of the block in consensus, from Amsterdam on (EIP-7843); `None` for the block's number.
    pub slot_number: Option<u64>,
}

impl ChainSpec {
    /// Header of the genesis of geth's or reth's `genesis.json`, with the root of its state in this engine.
    pub fn genesis_header(&self, genesis: &Genesis, state_root: B256) -> Header {
        let number = genesis.number.unwrap_or_default();
        let draft =
            Header { number, difficulty: genesis.difficulty, timestamp: genesis.timestamp, ..Header::default() };
        let spec = self.spec(&draft);
        let from = |since: SpecId| spec.is_enabled_in(since);
        let Parameters { initial_base_fee, .. } = *self.parameters();
        let base_fee = genesis.base_fee_per_gas.and_then(|fee| u64::try_from(fee).ok()).unwrap_or(initial_base_fee);
        Header {
            parent_hash: genesis.parent_hash.unwrap_or_default(),
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            beneficiary: genesis.coinbase,
            state_root,
            transactions_root: EMPTY_ROOT_HASH,
            receipts_root: EMPTY_ROOT_HASH,
            gas_limit: genesis.gas_limit,
            extra_data: genesis.extra_data.clone(),
            mix_hash: genesis.mix_hash,
            nonce: genesis.nonce.into(),
            base_fee_per_gas: from(SpecId::LONDON).then_some(base_fee),
            withdrawals_root: from(SpecId::SHANGHAI).then_some(EMPTY_ROOT_HASH),
            blob_gas_used: from(SpecId::CANCUN).then(|| genesis.blob_gas_used.unwrap_or_default()),
            excess_blob_gas: from(SpecId::CANCUN).then(|| genesis.excess_blob_gas.unwrap_or_default()),
            parent_beacon_block_root: from(SpecId::CANCUN).then_some(B256::ZERO),
            requests_hash: from(SpecId::PRAGUE).then_some(EMPTY_REQUESTS_HASH),
            block_access_list_hash: from(SpecId::AMSTERDAM).then_some(EMPTY_BLOCK_ACCESS_LIST_HASH),
            slot_number: from(SpecId::AMSTERDAM).then_some(0),
            ..draft
        }
    }

    /// Header of a child before its transactions: number, parent, fees, and every field that the fork demands. Fields
    /// of the outcome are those of an empty block; [`BlockOutcome::write_to`](super::BlockOutcome::write_to) sets them.
    /// Hashes the parent.
    ///
    /// # Errors
    /// [`HeaderError`] if the parent can have no such child.
    pub fn child_header(&self, parent: &Header, attributes: &Attributes) -> Result<Header, HeaderError> {
        let Attributes { timestamp, beneficiary, prevrandao, gas_limit, .. } = *attributes;
        let number = parent.number.saturating_add(1);
        let parent_spec = self.spec(parent);
        let mut header = Header { number, timestamp, beneficiary, difficulty: parent.difficulty, ..Header::default() };
        let merged = self.is_merged(&header);
        let spec = self.spec_at(number, timestamp, merged);
        let from = |since: SpecId| spec.is_enabled_in(since);
        if !merged {
            let expected = self.difficulty(&header, parent, spec);
            header.difficulty = expected.ok_or(HeaderError::Difficulty { expected: None, got: parent.difficulty })?;
        }
        let rules = &self.parameters;
        let is_first_london = from(SpecId::LONDON) && !parent_spec.is_enabled_in(SpecId::LONDON);
        let elasticity = if is_first_london { rules.base_fee.elasticity_multiplier } else { 1 };
        let limit = u64::try_from(u128::from(parent.gas_limit).saturating_mul(elasticity)).unwrap_or(u64::MAX);
        let base_fee = match parent.base_fee_per_gas.filter(|_| parent_spec.is_enabled_in(SpecId::LONDON)) {
            Some(fee) => {
                fees::next_base_fee(rules.base_fee, parent.gas_used, parent.gas_limit, fee).ok_or(TooWide::BASE_FEE)?
            }
            None => rules.initial_base_fee,
        };
        let excess = match self.blob_params(timestamp).filter(|_| from(SpecId::CANCUN)) {
            Some(params) => {
                let used = parent.blob_gas_used.unwrap_or_default();
                let (excess, fee) =
                    (parent.excess_blob_gas.unwrap_or_default(), parent.base_fee_per_gas.unwrap_or_default());
                let next = blobs::next_excess(&params, excess, used, fee);
                Some(next.ok_or(HeaderError::ExcessBlobGas { expected: None, got: excess })?)
            }
            None => None,
        };
        let header = Header {
            parent_hash: parent.hash_slow(),
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            transactions_root: EMPTY_ROOT_HASH,
            receipts_root: EMPTY_ROOT_HASH,
            gas_limit: gas_limit.unwrap_or(limit),
            extra_data: attributes.extra_data.clone(),
            mix_hash: if merged { prevrandao } else { B256::ZERO },
            base_fee_per_gas: from(SpecId::LONDON).then_some(base_fee),
            withdrawals_root: from(SpecId::SHANGHAI)
                .then(|| proofs::calculate_withdrawals_root(&attributes.withdrawals)),
            blob_gas_used: excess.map(|_| 0),
            excess_blob_gas: excess,
            parent_beacon_block_root: from(SpecId::CANCUN).then_some(attributes.parent_beacon_block_root),
            requests_hash: from(SpecId::PRAGUE).then_some(EMPTY_REQUESTS_HASH),
            block_access_list_hash: from(SpecId::AMSTERDAM).then_some(EMPTY_BLOCK_ACCESS_LIST_HASH),
            slot_number: from(SpecId::AMSTERDAM).then_some(attributes.slot_number.unwrap_or(number)),
            ..header
        };
        self.follows(&header, parent, merged)?;
        Ok(header)
    }
}
