//! A block by its content, as a payload or the block store has it.

use crate::store::Block;
use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{B256, Bytes};
use phalanx::{
    BlockAttributes,
    api::{BlockEnv, Candidate, ExecId, Payload, TxPolicy},
};
use std::sync::Arc;

/// A block whose hash is that of its header. Clones share the transactions.
#[derive(Clone, Debug)]
pub(crate) struct Proposed {
    pub(super) hash: B256,
    pub(super) parent: B256,
    env: BlockEnv,
    payload: Arc<Payload>,
    /// The reason for which no ancestor makes it valid.
    broken: Option<Arc<str>>,
}

impl Proposed {
    /// A payload with the header that its hash is of.
    pub(super) fn new(hash: B256, header: &Header, txs: Vec<Bytes>, withdrawals: Vec<Withdrawal>) -> Self {
        let attributes = BlockAttributes {
            parent_beacon_block_root: header.parent_beacon_block_root.unwrap_or_default(),
            withdrawals,
            slot_number: header.slot_number,
            extra_data: Some(header.extra_data.clone()).filter(|data| !data.is_empty()),
            ..BlockAttributes::default()
        };
        let payload = Payload::with_attributes(txs, attributes.encode()).into();
        Self { hash, parent: header.parent_hash, env: env(header), payload, broken: None }
    }

    /// The same block, which no ancestor makes valid.
    pub(super) fn breaking(mut self, why: &str) -> Self {
        self.broken = Some(why.into());
        self
    }

    /// The reason for which no ancestor makes it valid, if one is known.
    pub(super) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// A stored block.
    pub(super) fn stored(block: &Block) -> Self {
        let header = &block.head.header;
        let payload = block.payload().into();
        Self { hash: block.head.hash, parent: header.parent_hash, env: env(header), payload, broken: None }
    }

    /// The block on the execution of its parent.
    pub(super) fn candidate(&self, chain: u64, parent: ExecId) -> Candidate {
        Candidate::new(chain, parent, self.env, TxPolicy::Strict, Arc::clone(&self.payload))
    }

    pub(super) const fn number(&self) -> u64 {
        self.env.height
    }

    /// Seconds since 1970.
    pub(super) const fn timestamp(&self) -> u64 {
        self.env.timestamp_ms / 1000
    }

    pub(super) const fn env(&self) -> &BlockEnv {
        &self.env
    }

    pub(super) fn txs(&self) -> &[Bytes] {
        self.payload.txs()
    }

    /// Memory of the block, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let bytes = usize::try_from(self.payload.bytes()).unwrap_or(usize::MAX);
        bytes.saturating_add(self.payload.txs().len().saturating_mul(size_of::<Bytes>()))
    }
}

/// Environment of a block on proof of stake. A time beyond the range of milliseconds is the last, which no parent's child has.
const fn env(header: &Header) -> BlockEnv {
    BlockEnv {
        height: header.number,
        timestamp_ms: header.timestamp.saturating_mul(1000),
        prevrandao: header.mix_hash,
        beneficiary: header.beneficiary,
        gas_limit: header.gas_limit,
        base_fee: match header.base_fee_per_gas {
            Some(fee) => fee,
            None => 0,
        },
    }
}
