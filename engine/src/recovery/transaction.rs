use super::{Form, RecoverError, sidecar::Pooled};
use crate::model::Transaction;
use alloy_primitives::{Address, B256, Bytes};
use revm::{
    context::TxEnv,
    context_interface::cfg::{
        gas::{InitialAndFloorGas, calculate_initial_tx_gas_for_tx},
        gas_params::Eip2780TxInfo,
    },
    primitives::hardfork::SpecId,
};
use std::sync::Arc;

/// The type number of blob transactions (EIP-4844).
const BLOB: u8 = 3;

/// Gas before execution: revm's.
fn initial_gas(tx: &TxEnv, spec: SpecId) -> InitialAndFloorGas {
    let is_self_transfer = tx.kind.to() == Some(&tx.caller);
    let moved = Eip2780TxInfo { value: tx.value, is_self_transfer };
    calculate_initial_tx_gas_for_tx(tx, spec, spec.is_enabled_in(SpecId::AMSTERDAM).then_some(moved))
}

/// A transaction with its sender and authorities, and the bytes that it was decoded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredTx {
    hash: B256,
    bytes: Bytes,
    tx: TxEnv,
    /// Encoding with blobs, as pools send it.
    pooled: Option<Pooled>,
    /// Chain and hard fork whose stateless rules the transaction satisfies.
    checked: Option<(u64, SpecId)>,
    /// Hard fork whose prices `gas` uses.
    priced: SpecId,
    gas: InitialAndFloorGas,
}

impl RecoveredTx {
    /// `bytes` must not be a slice of a larger buffer, which it would keep in memory.
    pub(super) fn new(hash: B256, bytes: Bytes, tx: TxEnv, checked: Option<(u64, SpecId)>) -> Self {
        let priced = checked.map_or(SpecId::OSAKA, |(_, spec)| spec);
        let gas = initial_gas(&tx, priced);
        Self { hash, bytes, tx, pooled: None, checked, priced, gas }
    }

    /// Creates a transaction without a signature, for a sender that is known otherwise: of a workload, or of the
    /// protocol. `hash` names it in a pool and must be unique.
    pub fn unsigned(hash: B256, tx: TxEnv) -> Self {
        Self::new(hash, Bytes::new(), tx, None)
    }

    pub(super) fn with_blobs(&self, pooled: Pooled) -> Self {
        Self { pooled: Some(pooled), ..self.clone() }
    }

    pub(super) fn is_checked_for(&self, chain_id: u64, spec: SpecId) -> bool {
        self.checked == Some((chain_id, spec))
    }

    /// Returns the transaction if bytes in `form` may lack blobs: a blob transaction for a pool may not.
    pub(super) fn as_form(self: Arc<Self>, form: Form) -> Result<Arc<Self>, RecoverError> {
        if form == Form::Pooled && self.tx.tx_type == BLOB { Err(RecoverError::NoBlobs) } else { Ok(self) }
    }

    /// Hash of the transaction.
    pub const fn hash(&self) -> &B256 {
        &self.hash
    }

    /// EIP-2718 encoding as a block holds it; empty for [`Self::unsigned`].
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Encoding with blobs, if a blob transaction came with them.
    pub fn pooled_bytes(&self) -> Option<&Bytes> {
        self.pooled.as_ref().map(|pooled| &pooled.bytes)
    }

    /// False if the transaction has blobs with the proofs of another hard fork: of blobs before Osaka, of their cells from then on
    /// (EIP-7594).
    pub fn has_proofs_of(&self, spec: SpecId) -> bool {
        self.pooled.as_ref().is_none_or(|pooled| pooled.fits(spec))
    }

    /// The transaction as revm takes it.
    pub const fn tx(&self) -> &TxEnv {
        &self.tx
    }

    /// Sender of the transaction.
    pub const fn sender(&self) -> Address {
        self.tx.caller
    }

    /// Minimum gas limit with which the transaction is valid in `spec`: intrinsic gas, and the floor for calldata
    /// (EIP-7623). O(1) for the hard fork it was recovered for.
    pub fn least_gas(&self, spec: SpecId) -> u64 {
        let gas = match self.priced == spec {
            true => self.gas,
            false => initial_gas(&self.tx, spec),
        };
        let floor = if spec.is_enabled_in(SpecId::PRAGUE) { gas.floor_gas() } else { 0 };
        gas.initial_total_gas().max(floor)
    }

    /// Bytes that the transaction takes in memory, everything included.
    pub fn size(&self) -> usize {
        let TxEnv { data, access_list, blob_hashes, authorization_list, .. } = &self.tx;
        let keys: usize = access_list.0.iter().map(|item| item.storage_keys.len()).sum();
        size_of::<Self>()
            + self.bytes.len()
            + data.len()
            + self.pooled_bytes().map_or(0, |bytes| bytes.len())
            + access_list.0.len() * 64
            + keys * 32
            + blob_hashes.len() * 32
            + size_of_val(authorization_list.as_slice())
    }
}

/// Implemented for a transaction as a block holds it.
impl Transaction for RecoveredTx {
    fn env(&self) -> &TxEnv {
        self.tx()
    }

    fn size(&self) -> u64 {
        self.bytes().len() as u64
    }

    fn bytes(&self) -> Option<&Bytes> {
        Some(&self.bytes).filter(|bytes| !bytes.is_empty())
    }
}
