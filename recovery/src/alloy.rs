//! Recovery for programs on alloy: the provider behind each single call, and a batch beside it.
//!
//! ```
//! use alloy_consensus::{Signed, TxLegacy, crypto::{RecoveryError, backend::install_default_provider}};
//! use alloy_primitives::{Address, Signature};
//! use phalanx_recovery::alloy::{Provider, recover_signers};
//! use std::sync::Arc;
//!
//! // A process has one provider: every `recover_signer` of alloy's types goes through it from now on.
//! install_default_provider(Arc::new(Provider)).expect("the first one");
//!
//! // A block's senders, side by side.
//! fn senders(block: &[Signed<TxLegacy>]) -> Vec<Result<Address, RecoveryError>> {
//!     recover_signers(block.iter().map(|tx| (tx.signature(), tx.signature_hash())))
//! }
//! let unsigned = Signed::new_unhashed(TxLegacy::default(), Signature::new(Default::default(), Default::default(), false));
//! assert!(unsigned.recover_signer().is_err() && senders(&[unsigned])[0].is_err());
//! ```

use crate::{batch::recover_batch, single::recover};
use alloy_consensus::crypto::{InvalidSignatureS, RecoveryError, SECP256K1N_HALF, backend::CryptoProvider};
use alloy_primitives::{Address, B256, Signature};
use secp256k1::{Message, PublicKey, SECP256K1, ecdsa};

/// Provider of alloy-consensus, for `install_default_provider`: each call recovers or verifies one signature by libsecp256k1.
///
/// A lone signature has no lanes to fill, so what is gained over alloy with its feature `secp256k1` is
/// [`recover_signers`], and over its `k256` also the library.
#[derive(Clone, Copy, Debug, Default)]
pub struct Provider;

impl CryptoProvider for Provider {
    fn recover_signer_unchecked(&self, signature: &[u8; 65], hash: &[u8; 32]) -> Result<Address, RecoveryError> {
        recover(&B256::new(*hash), signature).map_err(|_| RecoveryError::new())
    }

    fn verify_and_compute_signer_unchecked(
        &self,
        key: &[u8; 65],
        signature: &[u8; 64],
        hash: &[u8; 32],
    ) -> Result<Address, RecoveryError> {
        let verified = || {
            let key = PublicKey::from_slice(key)?;
            let mut signature = ecdsa::Signature::from_compact(signature)?;
            // The library verifies the lower s alone, and this call accepts both.
            signature.normalize_s();
            SECP256K1.verify_ecdsa(&Message::from_digest(*hash), &signature, &key)?;
            Ok::<_, secp256k1::Error>(Address::from_raw_public_key(&key.serialize_uncompressed()[1..]))
        };
        verified().map_err(|_| RecoveryError::new())
    }
}

/// Recovers the signer of each hash, side by side as [`recover_batch`] does. Equal to alloy-consensus's `recover_signer` of each,
/// in order: a signature with s in the upper half is refused.
///
/// Runs on the caller's thread; a block is cut into chunks of a multiple of 16, some 128 signatures, for more threads.
pub fn recover_signers<'a>(
    signed: impl IntoIterator<Item = (&'a Signature, B256)>,
) -> Vec<Result<Address, RecoveryError>> {
    let (upper, batch): (Vec<bool>, Vec<_>) = signed
        .into_iter()
        .map(|(signature, hash)| (signature.s() > SECP256K1N_HALF, (hash, signature.as_rsy())))
        .unzip();
    let signer = |(upper, signer): (bool, Result<Address, _>)| match upper {
        true => Err(RecoveryError::from_source(InvalidSignatureS)),
        false => signer.map_err(|_| RecoveryError::new()),
    };
    upper.into_iter().zip(recover_batch(&batch)).map(signer).collect()
}
