//! Metadata of a snapshot: its manifest, and its block with a proof that the state is that block's.

use crate::store::{Block, Head};
use alloy_rlp::{RlpDecodable, RlpEncodable};
use phalanx::{
    Anchor, Anchored,
    alloy::{
        consensus::Header,
        primitives::{B256, Bytes},
    },
    api::{ExecId, TxPolicy},
    merkle::{Params, snapshot::Manifest},
};

/// Metadata of a snapshot as nodes send them. Everything in them is checked under the root.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub(crate) struct Metadata {
    pub(crate) manifest: Bytes,
    pub(crate) proof: Bytes,
    /// Execution of the parent.
    parent: B256,
    header: Header,
    timestamp_ms: u64,
    payload: B256,
}

impl Metadata {
    pub(crate) fn new(manifest: &Manifest, proof: Bytes, anchor: Anchor) -> Self {
        let Anchor { parent, header, timestamp_ms, payload, .. } = anchor;
        Self {
            manifest: Bytes::copy_from_slice(&manifest.encode()),
            proof,
            parent: parent.0,
            header,
            timestamp_ms,
            payload,
        }
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
        self.header.number
    }

    /// The block. CometBFT's blocks are executed with what cannot run left out.
    pub(crate) fn anchor(&self) -> Anchor {
        let Self { parent, header, timestamp_ms, payload, .. } = self.clone();
        Anchor { parent: ExecId(parent), header, timestamp_ms, policy: TxPolicy::SkipInvalid, payload }
    }

    /// Compares everything with a trusted root, and returns the manifest and what the state binds of its block. `None` if
    /// they are not of this chain, or not of a state with this root.
    pub(crate) fn check(&self, chain: (u64, B256), root: B256) -> Option<(Manifest, Anchored)> {
        let manifest = Manifest::decode(&self.manifest).ok()?;
        let is_same = (manifest.height, manifest.root, manifest.params) == (self.height(), root.0, Params::default());
        let anchored = is_same.then(|| self.anchor().check(chain, &manifest.params, root, &self.proof))??;
        Some((manifest, anchored))
    }

    /// The block as the first one of a block store. Its transactions are not known, so it is never shown.
    pub(crate) fn block(&self, anchored: &Anchored) -> Block {
        let head = Head {
            hash: self.header.hash_slow(),
            exec: anchored.name,
            header: self.header.clone(),
            timestamp_ms: self.timestamp_ms,
            attributes: Bytes::new(),
            access_list: Bytes::new(),
            skipped: Vec::new(),
        };
        Block { head, entries: Vec::new() }
    }
}
