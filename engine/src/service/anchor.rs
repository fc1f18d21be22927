//! The newest block of a snapshot of the state: a service goes on from it without the blocks below.

use super::codec::{Fees, Tag};
use crate::state::{Anchored, verify_anchored};
use alloy_consensus::Header;
use alloy_primitives::B256;
use phalanx_engine_api::{BlockEnv, BlockResult, CommitMeta, CommittedTip, ExecId, ExecOutcome, TxPolicy};
use phalanx_merkle::Params;
use std::sync::Arc;

/// A whole block without its transactions. What sent it may lie: [`Self::check`] compares it with the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Execution that the block builds on.
    pub parent: ExecId,
    /// Header of the block.
    pub header: Header,
    /// Milliseconds since 1970, as consensus set them.
    pub timestamp_ms: u64,
    /// Effect of invalid transactions on the block.
    pub policy: TxPolicy,
    /// Digest of the block's payload.
    pub payload: B256,
}

impl Anchor {
    /// Environment of the block.
    #[must_use]
    pub fn env(&self) -> BlockEnv {
        let Header { number, mix_hash, beneficiary, gas_limit, base_fee_per_gas, .. } = self.header;
        BlockEnv {
            height: number,
            timestamp_ms: self.timestamp_ms,
            prevrandao: mix_hash,
            beneficiary,
            gas_limit,
            base_fee: base_fee_per_gas.unwrap_or_default(),
        }
    }

    /// Compares the block with the state after it, by a proof from
    /// [`StateSnapshot::prove_anchored`](crate::StateSnapshot::prove_anchored) under a trusted root. Returns what the state
    /// binds of it, the header included, or `None` if the state is not that of this block, or of another chain.
    ///
    /// `chain` is the chain id, and the digest of the genesis: [`crate::chain_digest`].
    pub fn check(&self, chain: (u64, B256), params: &Params, root: B256, proof: &[u8]) -> Option<Anchored> {
        let anchored = verify_anchored(params, root, self.header.number, proof)?;
        let name = ExecId::derive(chain.0, self.parent, &self.env(), self.policy, self.payload);
        let rest = Header { state_root: B256::ZERO, ..self.header.clone() };
        let is_known = (anchored.chain, anchored.name, anchored.header) == (chain, name.0, rest.hash_slow());
        (is_known && self.header.state_root == root).then_some(anchored)
    }

    /// Application data of the block for [`phalanx_merkle::Restore::finish`]: a service that is opened on the restored store
    /// goes on from the block, whose commit has had this metadata. Its transactions are not known, and are not proven.
    pub fn payload(&self, anchored: &Anchored, meta: CommitMeta) -> Vec<u8> {
        let Header { number, timestamp, gas_limit, gas_used, state_root, receipts_root, .. } = self.header;
        let id = ExecId(anchored.name);
        let row = CommittedTip { height: number, exec: id, state_root, meta };
        let (transactions_root, txs) = (B256::ZERO, Arc::new([]));
        let outcome = ExecOutcome { id, state_root, receipts_root, transactions_root, gas_used, txs };
        let fees = Fees {
            timestamp,
            gas_limit,
            gas_used,
            base_fee: self.header.base_fee_per_gas.unwrap_or_default(),
            excess_blob_gas: self.header.excess_blob_gas.unwrap_or_default(),
            blob_gas_used: self.header.blob_gas_used.unwrap_or_default(),
        };
        let hash = self.header.hash_slow();
        Tag { hash, outcome, fees, covered: number, rows: vec![row], hashes: Arc::new([]) }.write()
    }
}

/// Application data of a block for [`phalanx_merkle::Restore::finish`], on a chain whose blocks are transactions alone: the execution, the
/// roots and the gas are those that consensus has certified. What [`Anchor::payload`] is for whole blocks.
#[must_use]
pub fn plain_payload(env: &BlockEnv, result: &BlockResult, meta: CommitMeta) -> Vec<u8> {
    let BlockEnv { height, timestamp_ms, gas_limit, base_fee, .. } = *env;
    let [hash, state_root, receipts_root, transactions_root] =
        [result.execution, result.state_root, result.receipts_root, result.transactions_root].map(B256::new);
    let (id, gas_used, txs) = (ExecId(hash), result.gas_used, Arc::new([]));
    let outcome = ExecOutcome { id, state_root, receipts_root, transactions_root, gas_used, txs };
    let timestamp = timestamp_ms / 1000;
    let fees = Fees { timestamp, gas_limit, gas_used, base_fee, ..Fees::default() };
    let row = CommittedTip { height, exec: id, state_root, meta };
    Tag { hash, outcome, fees, covered: height, rows: vec![row], hashes: Arc::new([]) }.write()
}
