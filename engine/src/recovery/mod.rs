//! Senders from signatures: the stage before everything else, some thirty microseconds per transaction and core.
//!
//! ```text
//!  bytes ─► Keccak-256 ─► RecoveryCache ──hit──────────────────────► rules ─► Arc<RecoveredTx>
//!                              │ miss                                 ▲
//!                              └─► decode ─► rules ─► sender, authorities, TxEnv
//! ```
//!
//! [`Recovery`] is what both the pool and the validator's path hold, each with its own form of bytes and with one shared
//! [`RecoveryCache`]: what came in through the pool costs a block that carries it one hash and one look-up. [`recover`] and
//! [`recover_all`] are the same without rules of a chain and without a cache.

mod cache;
mod decode;
mod error;
mod transaction;

pub use cache::{CacheStats, RecoveryCache};
pub use error::RecoverError;
pub use transaction::RecoveredTx;

use crate::chain::ChainSpec;
use alloy_consensus::{TxEnvelope, crypto::SECP256K1N_HALF};
use alloy_primitives::{B256, Bytes, keccak256};
use decode::{Decoded, decode, strip};
use phalanx_parascheduler::Workers;
use rayon::prelude::*;
use revm::{context::TxEnv, primitives::hardfork::SpecId};
use std::sync::Arc;

/// Transactions that one thread takes at a time: half a millisecond of work, so that the last piece of a batch is short.
const PIECE: usize = 16;

/// Which of the two encodings of a transaction is wanted. They differ for blob transactions alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As in a block: a blob transaction comes without its blobs.
    Block,
    /// As it is sent to a pool: a blob transaction comes with its blobs.
    Pooled,
}

/// Turns bytes into transactions under the rules of one fork of one chain.
///
/// A value that is cheap to share: it may be called from many threads at a time.
#[derive(Clone, Debug)]
pub struct Recovery {
    chain: ChainSpec,
    spec: SpecId,
    cache: Option<Arc<RecoveryCache>>,
}

impl Recovery {
    /// A recovery by the rules of `spec` on `chain`, without a cache.
    pub const fn new(chain: ChainSpec, spec: SpecId) -> Self {
        Self { chain, spec, cache: None }
    }

    /// Looks into `cache` first, and keeps there what it recovers.
    #[must_use]
    pub fn with_cache(mut self, cache: Arc<RecoveryCache>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// The rules of another fork, with the same cache.
    #[must_use]
    pub const fn with_spec(mut self, spec: SpecId) -> Self {
        self.spec = spec;
        self
    }

    /// Decodes one transaction, checks what its fork demands of it whatever the state is, and recovers its sender and the
    /// authorities of its authorizations. What is cheap is checked first.
    ///
    /// The work is linear in the bytes: a signature of an authorization takes no fewer of them than a whole transaction.
    ///
    /// # Errors
    /// [`RecoverError`], never a panic, whatever the bytes.
    pub fn recover(&self, form: Form, bytes: &[u8]) -> Result<Arc<RecoveredTx>, RecoverError> {
        // For all but blob transactions with their blobs this is the transaction's hash.
        let hash = keccak256(bytes);
        if let Some(known) = self.known(&hash)? {
            return known.as_form(form);
        }
        match decode(bytes, hash)? {
            Decoded::Plain(envelope) => self.finish(&envelope, bytes, hash)?.as_form(form),
            Decoded::WithBlobs(envelope, sidecar) if form == Form::Pooled => {
                let (envelope, block_bytes, hash) = strip(envelope, &sidecar)?;
                let tx = match self.known(&hash)? {
                    Some(known) => known,
                    None => self.finish(&envelope, &block_bytes, hash)?,
                };
                // The cache keeps what the hash determines, and blobs only pass through.
                Ok(Arc::new(tx.with_blobs(bytes)))
            }
            Decoded::WithBlobs(..) => Err(RecoverError::Rule(crate::chain::TxRuleError::Sidecar)),
        }
    }

    /// [`Self::recover`] for many, on all threads of `workers` and in order.
    pub fn recover_batch(
        &self,
        workers: &Workers,
        form: Form,
        encoded: &[Bytes],
    ) -> Vec<Result<Arc<RecoveredTx>, RecoverError>> {
        let recover = |bytes: &Bytes| self.recover(form, bytes);
        workers.install(|| encoded.par_iter().with_min_len(PIECE).map(recover).collect())
    }

    /// The transaction with that hash, if the cache holds it and it is valid by these rules.
    fn known(&self, hash: &B256) -> Result<Option<Arc<RecoveredTx>>, RecoverError> {
        let Some(known) = self.cache.as_ref().and_then(|cache| cache.get(hash)) else { return Ok(None) };
        if !known.is_checked_for(self.chain.chain_id(), self.spec) {
            // Recovered by the rules of another fork or chain: only the rules are asked again.
            if let Decoded::Plain(envelope) = decode(known.bytes(), *hash)? {
                self.chain.validate_tx(self.spec, &envelope)?;
            }
        }
        Ok(Some(known))
    }

    /// Rules, signatures, cache.
    fn finish(&self, envelope: &TxEnvelope, bytes: &[u8], hash: B256) -> Result<Arc<RecoveredTx>, RecoverError> {
        self.chain.validate_tx(self.spec, envelope)?;
        let tx = decode::signed(envelope)?;
        let checked = Some((self.chain.chain_id(), self.spec));
        let tx = Arc::new(RecoveredTx::new(hash, Bytes::copy_from_slice(bytes), tx, checked));
        Ok(match &self.cache {
            Some(cache) => cache.keep(tx),
            None => tx,
        })
    }
}

/// Decodes one transaction of a block and recovers its sender, for a chain that is not known: a signature has its one
/// canonical form (EIP-2), and no other rule is asked.
///
/// # Errors
/// [`RecoverError`], never a panic, whatever the bytes.
pub fn recover(bytes: &[u8]) -> Result<TxEnv, RecoverError> {
    match decode(bytes, keccak256(bytes))? {
        Decoded::Plain(envelope) if envelope.signature().s() > SECP256K1N_HALF => Err(RecoverError::Signature),
        Decoded::Plain(envelope) => decode::signed(&envelope),
        Decoded::WithBlobs(..) => Err(RecoverError::Rule(crate::chain::TxRuleError::Sidecar)),
    }
}

/// [`recover`] for many, in the current rayon pool and in order.
pub fn recover_all(encoded: &[Bytes]) -> Vec<Result<TxEnv, RecoverError>> {
    encoded.par_iter().with_min_len(PIECE).map(|bytes| recover(bytes)).collect()
}
