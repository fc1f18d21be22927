//! A built block as a consensus client gets it, in the structures of each version.

use super::{blobs::Blobs, fault::Fault, version::Version};
use alloy_consensus::{Header, Transaction as _, TxEnvelope};
use alloy_eips::{Decodable2718 as _, eip7685::Requests};
use alloy_primitives::U256;
use alloy_rpc_types_engine::{
    BlobsBundleV1, BlobsBundleV2, ExecutionPayloadEnvelopeV2, ExecutionPayloadEnvelopeV3, ExecutionPayloadEnvelopeV4,
    ExecutionPayloadEnvelopeV5, ExecutionPayloadEnvelopeV6, ExecutionPayloadFieldV2, ExecutionPayloadV1,
    ExecutionPayloadV2, ExecutionPayloadV3, ExecutionPayloadV4,
};
use phalanx::{BlockAttributes, WholeBlock};
use serde::Serialize;

/// A block that was built and executed here.
#[derive(Debug)]
pub(crate) struct Built {
    pub(super) whole: WholeBlock,
    pub(super) version: Version,
    /// Blobs of its transactions; `None` if the pool has lost some.
    pub(super) blobs: Option<Blobs>,
}

/// Answer of `getPayload`.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Envelope {
    V1(Box<ExecutionPayloadV1>),
    V2(Box<ExecutionPayloadEnvelopeV2>),
    V3(Box<ExecutionPayloadEnvelopeV3>),
    V4(Box<ExecutionPayloadEnvelopeV4>),
    V5(Box<ExecutionPayloadEnvelopeV5>),
    V6(Box<ExecutionPayloadEnvelopeV6>),
}

impl Built {
    /// The block in the structure of a version of `getPayload`.
    ///
    /// # Errors
    /// [`Fault::Fork`] if the block is of a fork that another version is for.
    pub(crate) fn envelope(&self, method: u8) -> Result<Envelope, Fault> {
        let fits = match method {
            1 => self.version == Version::Paris,
            2 => self.version <= Version::Shanghai,
            3 => self.version == Version::Cancun,
            4 => self.version == Version::Prague,
            5 => self.version == Version::Osaka,
            _ => self.version == Version::Amsterdam,
        };
        if !fits {
            return Err(Fault::Fork);
        }
        let lost =
            || Fault::Server("the pool lacks blobs of the payload, or has them without the proofs of its fork".into());
        let has_proofs = |blobs: &&Blobs| match method {
            3 | 4 => blobs.with_cells.is_empty(),
            _ => blobs.with_proofs.is_empty(),
        };
        let blobs = self.blobs.as_ref().filter(has_proofs).ok_or_else(lost)?;
        let block_value = self.value();
        let should_override_builder = false;
        Ok(match method {
            1 => Envelope::V1(Box::new(self.v1())),
            2 => {
                let execution_payload = match self.version {
                    Version::Paris => ExecutionPayloadFieldV2::V1(self.v1()),
                    _ => ExecutionPayloadFieldV2::V2(self.v2()),
                };
                Envelope::V2(Box::new(ExecutionPayloadEnvelopeV2 { execution_payload, block_value }))
            }
            3 | 4 => {
                let blobs_bundle = BlobsBundleV1::new(blobs.with_proofs.iter().cloned());
                let execution_payload = self.v3();
                let envelope_inner = ExecutionPayloadEnvelopeV3 {
                    execution_payload,
                    block_value,
                    blobs_bundle,
                    should_override_builder,
                };
                match method {
                    3 => Envelope::V3(Box::new(envelope_inner)),
                    _ => Envelope::V4(Box::new(ExecutionPayloadEnvelopeV4 {
                        envelope_inner,
                        execution_requests: self.requests(),
                    })),
                }
            }
            _ => {
                let blobs_bundle = BlobsBundleV2::new(blobs.with_cells.iter().cloned());
                let execution_requests = self.requests();
                match method {
                    5 => Envelope::V5(Box::new(ExecutionPayloadEnvelopeV5 {
                        execution_payload: self.v3(),
                        block_value,
                        blobs_bundle,
                        should_override_builder,
                        execution_requests,
                    })),
                    _ => Envelope::V6(Box::new(ExecutionPayloadEnvelopeV6 {
                        execution_payload: self.v4(),
                        block_value,
                        blobs_bundle,
                        should_override_builder,
                        execution_requests,
                    })),
                }
            }
        })
    }

    fn header(&self) -> &Header {
        &self.whole.header
    }

    fn v1(&self) -> ExecutionPayloadV1 {
        let header = self.header();
        ExecutionPayloadV1 {
            parent_hash: header.parent_hash,
            fee_recipient: header.beneficiary,
            state_root: header.state_root,
            receipts_root: header.receipts_root,
            logs_bloom: header.logs_bloom,
            prev_randao: header.mix_hash,
            block_number: header.number,
            gas_limit: header.gas_limit,
            gas_used: header.gas_used,
            timestamp: header.timestamp,
            extra_data: header.extra_data.clone(),
            base_fee_per_gas: U256::from(header.base_fee_per_gas.unwrap_or_default()),
            block_hash: header.hash_slow(),
            transactions: self.whole.payload.txs().to_vec(),
        }
    }

    fn v2(&self) -> ExecutionPayloadV2 {
        let attributes = BlockAttributes::decode(self.whole.payload.attributes()).unwrap_or_default();
        ExecutionPayloadV2 { payload_inner: self.v1(), withdrawals: attributes.withdrawals }
    }

    fn v3(&self) -> ExecutionPayloadV3 {
        let header = self.header();
        ExecutionPayloadV3 {
            payload_inner: self.v2(),
            blob_gas_used: header.blob_gas_used.unwrap_or_default(),
            excess_blob_gas: header.excess_blob_gas.unwrap_or_default(),
        }
    }

    fn v4(&self) -> ExecutionPayloadV4 {
        ExecutionPayloadV4 {
            payload_inner: self.v3(),
            block_access_list: self.whole.info.access_list().map_or_else(Default::default, |list| list.rlp().clone()),
            slot_number: self.header().slot_number.unwrap_or_default(),
        }
    }

    fn requests(&self) -> Requests {
        self.whole.info.requests().unwrap_or_default().to_vec().into()
    }

    /// Priority fees of the block, in wei.
    fn value(&self) -> U256 {
        let base_fee = self.header().base_fee_per_gas.unwrap_or_default();
        let outcomes = self.whole.info.outcomes().iter().filter(|outcome| outcome.result().is_some());
        let fees = self.whole.payload.txs().iter().zip(outcomes).map(|(tx, outcome)| {
            // An executed transaction decodes.
            let tip = TxEnvelope::decode_2718_exact(tx).ok().and_then(|tx| tx.effective_tip_per_gas(base_fee));
            U256::from(tip.unwrap_or_default()).saturating_mul(U256::from(outcome.gas_used()))
        });
        fees.fold(U256::ZERO, U256::saturating_add)
    }
}
