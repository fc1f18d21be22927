//! Senders from signatures: the stage before everything else, some thirty microseconds per transaction.

use alloy_consensus::{Transaction as _, TxEnvelope, Typed2718 as _, transaction::SignerRecoverable as _};
use alloy_eips::Decodable2718 as _;
use alloy_primitives::Bytes;
use rayon::prelude::*;
use revm::{context::TxEnv, context_interface::either::Either};

/// Why bytes are not a transaction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// They are not the EIP-2718 encoding of a transaction, or more than one.
    #[error("not an EIP-2718 transaction: {0}")]
    Decode(#[from] alloy_eips::eip2718::Eip2718Error),
    /// Bytes follow the transaction.
    #[error("{len} bytes follow the transaction")]
    Trailing {
        /// How many.
        len: usize,
    },
    /// The signature belongs to no key, or is not the canonical one (EIP-2).
    #[error("the signature is invalid")]
    Signature,
}

/// Decodes one transaction and recovers its sender.
///
/// # Errors
/// [`RecoverError`], never a panic, whatever the bytes.
pub fn recover(bytes: &[u8]) -> Result<TxEnv, RecoverError> {
    let mut rest = bytes;
    let envelope = TxEnvelope::decode_2718(&mut rest)?;
    if !rest.is_empty() {
        return Err(RecoverError::Trailing { len: rest.len() });
    }
    let caller = envelope.recover_signer().map_err(|_| RecoverError::Signature)?;
    let mut tx = TxEnv {
        tx_type: envelope.ty(),
        caller,
        gas_limit: envelope.gas_limit(),
        gas_price: envelope.max_fee_per_gas(),
        kind: envelope.kind(),
        value: envelope.value(),
        data: envelope.input().clone(),
        nonce: envelope.nonce(),
        chain_id: envelope.chain_id(),
        access_list: envelope.access_list().cloned().unwrap_or_default(),
        gas_priority_fee: envelope.max_priority_fee_per_gas(),
        blob_hashes: envelope.blob_versioned_hashes().unwrap_or_default().to_vec(),
        max_fee_per_blob_gas: envelope.max_fee_per_blob_gas().unwrap_or_default(),
        authorization_list: Vec::new(),
    };
    tx.authorization_list =
        envelope.authorization_list().unwrap_or_default().iter().cloned().map(Either::Left).collect();
    Ok(tx)
}

/// [`recover`] for many, in the current rayon pool and in order.
pub fn recover_all(encoded: &[Bytes]) -> Vec<Result<TxEnv, RecoverError>> {
    encoded.par_iter().with_min_len(16).map(|bytes| recover(bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_transaction_is_told() {
        assert!(matches!(recover(&[]), Err(RecoverError::Decode(_))));
        assert!(matches!(recover(&[0x02, 0xc0]), Err(RecoverError::Decode(_))));
        assert!(matches!(recover(&[0x7f; 200]), Err(RecoverError::Decode(_))));
    }
}
