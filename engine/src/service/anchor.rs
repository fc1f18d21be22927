//! The newest block of a snapshot of the state: a service goes on from it without the blocks below.

use super::codec::{Fees, Tag};
use crate::state::{Anchored, verify_anchored};
use alloy_primitives::B256;
use phalanx_engine_api::{BlockEnv, CommitMeta, CommittedTip, ExecId, ExecOutcome, TxPolicy};
use phalanx_merkle::Params;
use std::sync::Arc;

/// Identity of a block without its transactions. What sent it may lie: [`Self::check`] compares it with the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Execution that the block builds on.
    pub parent: ExecId,
    /// Environment of the block.
    pub env: BlockEnv,
    /// Effect of invalid transactions on the block.
    pub policy: TxPolicy,
    /// Digest of the block's payload.
    pub payload: B256,
}

impl Anchor {
    /// Compares the block with the state after it, by a proof from
    /// [`StateSnapshot::prove_anchored`](crate::StateSnapshot::prove_anchored) under a trusted root. Returns what the state
    /// binds of its result, or `None` if the state is not that of this block, or of another chain.
    ///
    /// `chain` is the chain id, and the digest of the genesis: [`crate::chain_digest`].
    pub fn check(&self, chain: (u64, B256), params: &Params, root: B256, proof: &[u8]) -> Option<Anchored> {
        let anchored = verify_anchored(params, root, self.env.height, proof)?;
        let name = ExecId::derive(chain.0, self.parent, &self.env, self.policy, self.payload);
        (anchored.chain == chain && anchored.name == name.0).then_some(anchored)
    }

    /// Application data of the block for [`phalanx_merkle::Restore::finish`]: a service that is opened on the restored store
    /// goes on from the block. Receipts and transactions of the block are not known, and are not proven.
    pub fn payload(&self, anchored: &Anchored, state_root: B256) -> Vec<u8> {
        let (height, id) = (self.env.height, ExecId(anchored.name));
        let meta = CommitMeta { cursor: height, ..CommitMeta::default() };
        let row = CommittedTip { height, exec: id, state_root, meta };
        let outcome = ExecOutcome {
            id,
            state_root,
            receipts_root: B256::ZERO,
            transactions_root: B256::ZERO,
            gas_used: anchored.gas_used,
            txs: Arc::new([]),
        };
        let fees = Fees {
            timestamp: self.env.timestamp_ms / 1000,
            gas_limit: self.env.gas_limit,
            gas_used: anchored.gas_used,
            base_fee: self.env.base_fee,
            excess_blob_gas: anchored.excess_blob_gas,
            blob_gas_used: anchored.blob_gas_used,
        };
        Tag { outcome, fees, covered: height, rows: vec![row], hashes: Arc::new([]) }.write()
    }
}
