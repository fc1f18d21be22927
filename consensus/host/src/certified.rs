//! A decided block with the votes that certify its result: a replica goes on from the state after it, without the blocks below.
//!
//! A quorum of state votes names the block and the digest of its result. The digest covers the state root and the execution, and the
//! execution covers parent, time, beneficiary and transactions. So the certificate binds all that a host needs of the chain below, and
//! the root binds the state itself: the peer that sends either is trusted with nothing.

use crate::{
    chain::{Tip, decode_result},
    config::HostConfig,
    proof::{StateProof, certifies},
};
use alloy_primitives::{Address, B256, Bytes};
use alloy_rlp::{RlpDecodable, RlpEncodable};
use phalanx_bft::Slot;
use phalanx_engine_api::{BlockEnv, BlockId, BlockResult, CommitMeta, ExecId, TxPolicy};
use phalanx_keys::Scheme;

/// A decided block, what its execution follows from, and the certificate of its result. [`Certified::check`] says if it is one.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Certified {
    /// Slot of the block.
    pub slot: Slot,
    /// Name of the block.
    pub block: B256,
    /// Execution of the parent.
    pub parent: B256,
    /// Time of the block, in milliseconds since 1970.
    pub timestamp_ms: u64,
    /// Receiver of the fees.
    pub beneficiary: Address,
    /// Digest of the transactions.
    pub payload: B256,
    /// Result of the block, encoded.
    pub result: Bytes,
    /// State votes of a quorum, as [`StateProof`] encodes them.
    pub certificate: Bytes,
}

/// A block whose certificate was checked: a replica may go on from the state after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    block: Certified,
    tip: Tip,
    env: BlockEnv,
    result: BlockResult,
}

impl Certified {
    /// Compares the fields with each other and with the certificate, and verifies its votes: a quorum of a network with these constants
    /// has signed this result. `None` if anything differs.
    #[must_use]
    pub fn check(self, config: &HostConfig, scheme: &dyn Scheme) -> Option<Anchor> {
        let Self { slot, block, timestamp_ms, beneficiary, .. } = self;
        let (result, parent) = (decode_result(&self.result)?, ExecId(self.parent));
        let (gas_limit, base_fee) = (config.rules.gas_limit, config.rules.base_fee);
        let prevrandao = parent.randomness(slot, timestamp_ms, beneficiary);
        let env = BlockEnv { height: slot, timestamp_ms, prevrandao, beneficiary, gas_limit, base_fee };
        let exec = ExecId::derive(config.rules.chain, parent, &env, TxPolicy::SkipInvalid, self.payload);
        let StateProof::Votes(votes) = StateProof::decode(&self.certificate)? else { return None };
        let named = (slot, block, B256::new(result.digest()));
        let is_proven =
            slot > 0 && exec.0.0 == result.execution && certifies(&votes, named, config.quorums, config.domain, scheme);
        let tip = Tip { slot, id: BlockId(block), exec, timestamp_ms };
        is_proven.then_some(Anchor { block: self, tip, env, result })
    }
}

impl Anchor {
    /// The block.
    #[must_use]
    pub const fn tip(&self) -> Tip {
        self.tip
    }

    /// Environment of the block.
    #[must_use]
    pub const fn env(&self) -> BlockEnv {
        self.env
    }

    /// Result of the block.
    #[must_use]
    pub const fn result(&self) -> BlockResult {
        self.result
    }

    /// Facts that the engine's commit of the block has to carry: a host on such a log compares them with its log.
    #[must_use]
    pub fn meta(&self) -> CommitMeta {
        let certificate = Some(self.block.certificate.clone());
        CommitMeta {
            block: self.tip.id,
            cursor: self.tip.slot,
            state_certificate: certificate,
            ..CommitMeta::default()
        }
    }

    /// The block with its certificate.
    #[must_use]
    pub const fn block(&self) -> &Certified {
        &self.block
    }
}
