//! Signers of many transactions at once: senders, and authorities of EIP-7702.

use super::RecoverError;
use alloy_consensus::{SignableTransaction, Signed, Transaction as _, TxEnvelope, Typed2718 as _};
use alloy_eips::eip7702::{RecoveredAuthority, RecoveredAuthorization, SignedAuthorization, constants::MAGIC};
use alloy_primitives::{Address, B256, Signature};
use alloy_rlp::Encodable as _;
use phalanx_hash_lanes::keccak256_many;
use phalanx_recovery::recover_batch;
use revm::{context::TxEnv, context_interface::either::Either};

/// Converts transactions for revm, with senders and authorities from their signatures, in order. The hard fork's rules
/// decide whether `s` may be in the upper half. With `by_name`, on a chain for development, a signature may name its sender.
pub(super) fn signed<'a>(
    envelopes: impl Iterator<Item = &'a TxEnvelope> + Clone,
    by_name: bool,
) -> Vec<Result<TxEnv, RecoverError>> {
    let mut signatures = Signatures::default();
    for envelope in envelopes.clone() {
        signatures.add_sender(envelope);
        for authorization in envelope.authorization_list().unwrap_or_default() {
            signatures.add_authority(authorization);
        }
    }
    let mut signers = signatures.signers().into_iter();
    let mut next = || signers.next().expect("a signer per signature");
    let mut out = Vec::with_capacity(envelopes.size_hint().0);
    for envelope in envelopes {
        let caller = next().or_else(|| by_name.then(|| named(envelope.signature())).flatten());
        let authorizations = envelope.authorization_list().unwrap_or_default();
        let authorization_list =
            authorizations.iter().map(|signed| Either::Right(authorized(signed, next()))).collect();
        out.push(caller.ok_or(RecoverError::Signature).map(|caller| TxEnv {
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
            authorization_list,
        }));
    }
    out
}

/// The sender that a signature names: its `r` is zero, which no signature has, and its `s` the address.
fn named(signature: &Signature) -> Option<Address> {
    let (r, s) = (signature.r(), signature.s());
    (r.is_zero() && s.bit_len() <= 160).then(|| Address::from_word(s.into()))
}

/// An authorization with its authority. Without a valid signature it is skipped when the transaction runs, and makes nothing
/// invalid (EIP-7702).
fn authorized(signed: &SignedAuthorization, signer: Option<Address>) -> RecoveredAuthorization {
    let authority = signer.map_or(RecoveredAuthority::Invalid, RecoveredAuthority::Valid);
    RecoveredAuthorization::new_unchecked(signed.inner().clone(), authority)
}

/// Signatures, and the messages that they sign.
#[derive(Default)]
struct Signatures {
    /// All messages, one behind the other.
    messages: Vec<u8>,
    /// End of each message.
    ends: Vec<usize>,
    signatures: Vec<phalanx_recovery::Signature>,
}

impl Signatures {
    fn add_sender(&mut self, envelope: &TxEnvelope) {
        match envelope {
            TxEnvelope::Legacy(signed) => self.add_signed(signed),
            TxEnvelope::Eip2930(signed) => self.add_signed(signed),
            TxEnvelope::Eip1559(signed) => self.add_signed(signed),
            TxEnvelope::Eip4844(signed) => self.add_signed(signed),
            TxEnvelope::Eip7702(signed) => self.add_signed(signed),
        }
    }

    fn add_signed<T: SignableTransaction<Signature>>(&mut self, signed: &Signed<T>) {
        signed.tx().encode_for_signing(&mut self.messages);
        self.add(signed.signature());
    }

    /// An authorization's signature must be canonical: another one has no signer, as zeros have none.
    fn add_authority(&mut self, signed: &SignedAuthorization) {
        match signed.signature().ok().filter(|signature| signature.normalize_s().is_none()) {
            Some(signature) => {
                self.messages.push(MAGIC);
                signed.inner().encode(&mut self.messages);
                self.add(&signature);
            }
            None => self.add(&Signature::new(Default::default(), Default::default(), false)),
        }
    }

    /// Adds the signature of the message that ends here.
    fn add(&mut self, signature: &Signature) {
        self.signatures.push(signature.as_rsy());
        self.ends.push(self.messages.len());
    }

    /// The signer of each signature, if it has any.
    fn signers(self) -> Vec<Option<Address>> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let messages: Vec<&[u8]> = starts.zip(&self.ends).map(|(start, end)| &self.messages[start..*end]).collect();
        let mut digests: Vec<B256> = Vec::new();
        keccak256_many(messages.into_iter(), &mut digests);
        let signed: Vec<_> = digests.into_iter().zip(self.signatures).collect();
        recover_batch(&signed).into_iter().map(Result::ok).collect()
    }
}
