//! A block by its content, as a payload or the block store has it.

use crate::store::Block;
use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B256, Bytes};
use alloy_rlp::{RlpDecodable, RlpEncodable};
use phalanx::{
    BlockAttributes,
    api::{BlockEnv, Candidate, ExecId, Payload, TxPolicy},
};
use std::sync::Arc;

/// A block as the journal keeps it.
#[derive(RlpEncodable, RlpDecodable)]
struct Written {
    hash: B256,
    parent: B256,
    height: u64,
    timestamp_ms: u64,
    prevrandao: B256,
    beneficiary: Address,
    gas_limit: u64,
    base_fee: u64,
    attributes: Bytes,
    txs: Vec<Bytes>,
}

/// The reason for which no ancestor makes a block valid.
#[derive(Clone, Debug)]
pub(super) enum Broken {
    /// An entry of its transactions is none.
    Entry(Arc<str>),
    Header(Arc<str>),
}

/// A block whose hash is that of its header. Clones share the transactions.
#[derive(Clone, Debug)]
pub(crate) struct Proposed {
    pub(super) hash: B256,
    pub(super) parent: B256,
    env: BlockEnv,
    payload: Arc<Payload>,
    /// The block access list that its header commits to, if it came with one: the execution runs on it.
    list: Option<Bytes>,
    /// The reason for which no ancestor makes it valid.
    broken: Option<Broken>,
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
        Self { hash, parent: header.parent_hash, env: env(header), payload, list: None, broken: None }
    }

    /// The same block with the block access list that its header commits to.
    pub(super) fn with_list(mut self, list: Option<Bytes>) -> Self {
        self.list = list;
        self
    }

    /// The same block, which no ancestor makes valid.
    pub(super) fn breaking(mut self, why: Broken) -> Self {
        self.broken = Some(why);
        self
    }

    /// The reason for which no ancestor makes it valid, if one is known.
    pub(super) const fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    /// A stored block.
    pub(super) fn stored(block: &Block) -> Self {
        let header = &block.head.header;
        let payload = block.payload().into();
        let list = Some(block.head.access_list.clone()).filter(|list| !list.is_empty());
        Self { hash: block.head.hash, parent: header.parent_hash, env: env(header), payload, list, broken: None }
    }

    /// Encodes the block for the journal.
    pub(super) fn encode(&self) -> Vec<u8> {
        let BlockEnv { height, timestamp_ms, prevrandao, beneficiary, gas_limit, base_fee } = self.env;
        let (attributes, txs) = (self.payload.attributes().clone(), self.txs().to_vec());
        let (hash, parent) = (self.hash, self.parent);
        alloy_rlp::encode(Written {
            hash,
            parent,
            height,
            timestamp_ms,
            prevrandao,
            beneficiary,
            gas_limit,
            base_fee,
            attributes,
            txs,
        })
    }

    /// Decodes all of `bytes`; `None` if they are no block.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let written: Written = alloy_rlp::decode_exact(bytes).ok()?;
        let Written { hash, parent, height, timestamp_ms, prevrandao, beneficiary, gas_limit, base_fee, .. } = written;
        let env = BlockEnv { height, timestamp_ms, prevrandao, beneficiary, gas_limit, base_fee };
        let payload = Payload::with_attributes(written.txs, written.attributes).into();
        Some(Self { hash, parent, env, payload, list: None, broken: None })
    }

    /// The block on the execution of its parent.
    pub(super) fn candidate(&self, chain: u64, parent: ExecId) -> Candidate {
        let candidate = Candidate::new(chain, parent, self.env, TxPolicy::Strict, Arc::clone(&self.payload));
        self.list.iter().cloned().fold(candidate, Candidate::with_hints)
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
        let list = self.list.as_ref().map_or(0, |list| list.len());
        let bytes = usize::try_from(self.payload.bytes()).unwrap_or(usize::MAX).saturating_add(list);
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
