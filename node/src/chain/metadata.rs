//! Metadata of a snapshot: its manifest, and its block with a proof that the state is that block's.

use crate::store::{Block, Head};
use alloy_rlp::{RlpDecodable, RlpEncodable};
use phalanx::{
    Anchor, Anchored,
    alloy::{
        consensus::Header,
        primitives::{Address, B256, Bytes},
    },
    api::{BlockEnv, ExecId, TxPolicy},
    merkle::{Params, snapshot::Manifest},
};

/// Metadata of a snapshot as nodes send them. Everything in them is checked under the root.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub(crate) struct Metadata {
    pub(crate) manifest: Bytes,
    pub(crate) proof: Bytes,
    parent: B256,
    height: u64,
    timestamp_ms: u64,
    prevrandao: B256,
    beneficiary: Address,
    gas_limit: u64,
    base_fee: u64,
    payload: B256,
}

impl Metadata {
    pub(crate) fn new(manifest: &Manifest, proof: Bytes, anchor: &Anchor) -> Self {
        let Anchor { parent, env, payload, .. } = *anchor;
        let BlockEnv { height, timestamp_ms, prevrandao, beneficiary, gas_limit, base_fee } = env;
        let (manifest, parent) = (Bytes::copy_from_slice(&manifest.encode()), parent.0);
        Self { manifest, proof, parent, height, timestamp_ms, prevrandao, beneficiary, gas_limit, base_fee, payload }
    }

    pub(crate) fn encode(&self) -> Bytes {
        alloy_rlp::encode(self).into()
    }

    /// Decodes what [`Self::encode`] wrote; `None` for other bytes.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let metadata = <Self as alloy_rlp::Decodable>::decode(&mut bytes).ok()?;
        bytes.is_empty().then_some(metadata)
    }

    pub(crate) const fn height(&self) -> u64 {
        self.height
    }

    /// The block. CometBFT's blocks are executed with what cannot run left out.
    pub(crate) const fn anchor(&self) -> Anchor {
        let Self { height, timestamp_ms, prevrandao, beneficiary, gas_limit, base_fee, payload, .. } = *self;
        let env = BlockEnv { height, timestamp_ms, prevrandao, beneficiary, gas_limit, base_fee };
        Anchor { parent: ExecId(self.parent), env, policy: TxPolicy::SkipInvalid, payload }
    }

    /// Compares everything with a trusted root, and returns the manifest and what the state binds of its block. `None` if
    /// they are not of this chain, or not of a state with this root.
    pub(crate) fn check(&self, chain: (u64, B256), root: B256) -> Option<(Manifest, Anchored)> {
        let manifest = Manifest::decode(&self.manifest).ok()?;
        let is_same = (manifest.height, manifest.root, manifest.params) == (self.height, root.0, Params::default());
        let anchored = is_same.then(|| self.anchor().check(chain, &manifest.params, root, &self.proof))??;
        Some((manifest, anchored))
    }

    /// The block as the first one of a block store. Transactions and receipts are not known, so it is never shown.
    pub(crate) fn block(&self, anchored: &Anchored, root: B256) -> Block {
        let header = Header {
            parent_hash: self.parent,
            beneficiary: self.beneficiary,
            state_root: root,
            receipts_root: B256::ZERO,
            number: self.height,
            gas_limit: self.gas_limit,
            gas_used: anchored.gas_used,
            timestamp: self.timestamp_ms / 1000,
            mix_hash: self.prevrandao,
            base_fee_per_gas: Some(self.base_fee),
            // In RLP a field behind it needs it.
            withdrawals_root: Some(B256::ZERO),
            blob_gas_used: Some(anchored.blob_gas_used),
            excess_blob_gas: Some(anchored.excess_blob_gas),
            ..Header::default()
        };
        let head = Head {
            hash: anchored.name,
            header,
            timestamp_ms: self.timestamp_ms,
            attributes: Bytes::new(),
            access_list: Bytes::new(),
            skipped: Vec::new(),
        };
        Block { head, entries: Vec::new() }
    }
}
