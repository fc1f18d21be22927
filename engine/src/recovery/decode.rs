//! Decoding of transactions.

use super::RecoverError;
use crate::{chain::TxRuleError, model::TooWide};
use alloy_consensus::{
    Signed, TxEip4844, TxEip4844Variant, TxEnvelope, crypto::SECP256K1N_HALF, transaction::RlpEcdsaDecodableTx,
};
use alloy_eips::{
    Encodable2718 as _,
    eip2718::{Eip2718Error, Eip2718Result},
    eip7594::BlobTransactionSidecarVariant,
};
use alloy_primitives::B256;

/// A decoded transaction, its signature unchecked.
pub(super) enum Decoded {
    /// A transaction in the form that a block holds.
    Plain(TxEnvelope),
    /// A blob transaction with its blobs.
    WithBlobs(Signed<TxEip4844>, Box<BlobTransactionSidecarVariant>),
}

/// Returns true if the bytes decode to a transaction of a block, whose signature is canonical. Recovers no sender, so that it is cheap.
#[must_use]
pub fn is_transaction(bytes: &[u8]) -> bool {
    canonical(bytes, B256::ZERO).is_ok()
}

/// Decodes a transaction of a block, whose signature must be canonical.
pub(super) fn canonical(bytes: &[u8], hash: B256) -> Result<TxEnvelope, RecoverError> {
    match decode(bytes, hash)? {
        Decoded::Plain(envelope) if envelope.signature().s() > SECP256K1N_HALF => Err(RecoverError::Signature),
        Decoded::Plain(envelope) => Ok(envelope),
        Decoded::WithBlobs(..) => Err(RecoverError::Rule(TxRuleError::Sidecar)),
    }
}

/// Decodes all of `bytes`, whose Keccak-256 is `hash`: the bytes are not hashed again.
pub(super) fn decode(bytes: &[u8], hash: B256) -> Result<Decoded, RecoverError> {
    exactly(bytes, hash).map_err(|error| match TooWide::in_transaction(bytes) {
        Some(wide) if matches!(error, RecoverError::Decode(_)) => wide.into(),
        _ => error,
    })
}

fn exactly(bytes: &[u8], hash: B256) -> Result<Decoded, RecoverError> {
    let mut rest = bytes;
    let decoded = match bytes.first() {
        // Type numbers end where RLP lists begin; there is nothing between.
        Some(0xc0..) => Decoded::Plain(TxEnvelope::Legacy(fields(&mut rest, hash)?)),
        Some(number) => {
            rest = &bytes[1..];
            match number {
                1 => Decoded::Plain(TxEnvelope::Eip2930(fields(&mut rest, hash)?)),
                2 => Decoded::Plain(TxEnvelope::Eip1559(fields(&mut rest, hash)?)),
                3 => blobs(fields(&mut rest, hash)?),
                4 => Decoded::Plain(TxEnvelope::Eip7702(fields(&mut rest, hash)?)),
                _ => return Err(Eip2718Error::UnexpectedType(*number).into()),
            }
        }
        None => return Err(Eip2718Error::from(alloy_rlp::Error::InputTooShort).into()),
    };
    if !rest.is_empty() {
        return Err(RecoverError::Trailing { len: rest.len() });
    }
    if let Decoded::Plain(envelope) = &decoded {
        // RLP has one shortest encoding of every value, so equal length is equal bytes, and `hash` the hash of both.
        let canonical = envelope.encode_2718_len();
        if canonical != bytes.len() {
            return Err(RecoverError::NotCanonical { len: bytes.len(), canonical });
        }
    }
    Ok(decoded)
}

fn fields<T: RlpEcdsaDecodableTx>(rest: &mut &[u8], hash: B256) -> Eip2718Result<Signed<T>> {
    let (tx, signature) = T::rlp_decode_with_signature(rest)?;
    Ok(Signed::new_unchecked(tx, signature, hash))
}

fn blobs(signed: Signed<TxEip4844Variant>) -> Decoded {
    let (tx, signature, hash) = signed.into_parts();
    match tx {
        TxEip4844Variant::TxEip4844(_) => {
            Decoded::Plain(TxEnvelope::Eip4844(Signed::new_unchecked(tx, signature, hash)))
        }
        TxEip4844Variant::TxEip4844WithSidecar(with) => {
            let (tx, sidecar) = with.into_parts();
            Decoded::WithBlobs(Signed::new_unchecked(tx, signature, hash), Box::new(sidecar))
        }
    }
}
