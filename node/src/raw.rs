//! A block as another node executes it again: its content, and the result that it must have.

use crate::store::Block;
use phalanx::{
    alloy::primitives::{Address, B256, Bytes, U64},
    api::{BlockEnv, Candidate, ExecId, Payload, TxPolicy},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A block with everything that its execution depends on. Its hash binds all of that, the chain id included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RawBlock {
    pub(crate) number: U64,
    pub(crate) hash: B256,
    pub(crate) parent_hash: B256,
    pub(crate) timestamp_ms: U64,
    pub(crate) prev_randao: B256,
    pub(crate) beneficiary: Address,
    pub(crate) gas_limit: U64,
    pub(crate) base_fee_per_gas: U64,
    /// Attributes beside the environment, such as withdrawals, in the engine's encoding.
    pub(crate) attributes: Bytes,
    /// Transactions of the payload, those that were skipped included.
    pub(crate) transactions: Vec<Bytes>,
    pub(crate) state_root: B256,
    pub(crate) receipts_root: B256,
    pub(crate) gas_used: U64,
}

impl RawBlock {
    pub(crate) fn of(block: &Block) -> Self {
        let header = &block.head.header;
        let payload = block.payload();
        Self {
            number: U64::from(header.number),
            hash: block.head.hash,
            parent_hash: header.parent_hash,
            timestamp_ms: U64::from(block.head.timestamp_ms),
            prev_randao: header.mix_hash,
            beneficiary: header.beneficiary,
            gas_limit: U64::from(header.gas_limit),
            base_fee_per_gas: U64::from(header.base_fee_per_gas.unwrap_or_default()),
            attributes: payload.attributes().clone(),
            transactions: payload.txs().to_vec(),
            state_root: header.state_root,
            receipts_root: header.receipts_root,
            gas_used: U64::from(header.gas_used),
        }
    }

    /// The block of a chain that the hash names; `None` if no block with this content has the hash.
    pub(crate) fn candidate(&self, chain: u64) -> Option<Candidate> {
        let env = BlockEnv {
            height: self.number.to(),
            timestamp_ms: self.timestamp_ms.to(),
            prevrandao: self.prev_randao,
            beneficiary: self.beneficiary,
            gas_limit: self.gas_limit.to(),
            base_fee: self.base_fee_per_gas.to(),
        };
        let payload = Arc::new(Payload::with_attributes(self.transactions.clone(), self.attributes.clone()));
        let parent = ExecId(self.parent_hash);
        // The hash binds the policy as well.
        let by = |policy| Candidate::new(chain, parent, env, policy, Arc::clone(&payload));
        [TxPolicy::Strict, TxPolicy::SkipInvalid].into_iter().map(by).find(|found| found.id().0 == self.hash)
    }
}
