//! Recovery of senders from signatures: the first stage, some thirty microseconds per transaction and core.
//!
//! ```text
//!  bytes ─► Keccak-256 ─► RecoveryCache ──hit──────────────────────► rules ─► Arc<RecoveredTx>
//!                              │ miss                                 ▲
//!                              └─► decode ─► rules ─► sender, authorities, TxEnv
//! ```
//!
//! Pool and validator each hold a [`Recovery`], with its own form of bytes and one shared [`RecoveryCache`]: a
//! transaction that came through the pool costs a block one hash and one look-up. [`recover`] and [`recover_all`] do
//! the same without rules of a chain and without a cache.

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

/// Transactions of a chunk: half a millisecond of work, so that the last chunk of a batch is short.
const CHUNK: usize = 16;

/// Encoding of a transaction. The two differ for blob transactions alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As in a block: a blob transaction without its blobs.
    Block,
    /// As sent to a pool: a blob transaction with its blobs.
    Pooled,
}

/// Recovers transactions by the rules of one hard fork of one chain.
///
/// A value that is cheap to share: many threads may call it at a time.
#[derive(Clone, Debug)]
pub struct Recovery {
    chain: Arc<ChainSpec>,
    spec: SpecId,
    cache: Option<Arc<RecoveryCache>>,
}

impl Recovery {
    /// Creates a recovery by the rules of `spec` on `chain`, without a cache.
    pub fn new(chain: ChainSpec, spec: SpecId) -> Self {
        Self { chain: Arc::new(chain), spec, cache: None }
    }

    /// Reads `cache` first, and inserts what it recovers.
    #[must_use]
    pub fn with_cache(mut self, cache: Arc<RecoveryCache>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Sets the hard fork, with the same cache.
    #[must_use]
    pub const fn with_spec(mut self, spec: SpecId) -> Self {
        self.spec = spec;
        self
    }

    /// Decodes a transaction, checks the rules that need no state, and recovers its sender and the authorities of its
    /// authorizations. Cheap checks come first.
    ///
    /// Takes time linear in the bytes: an authorization's signature takes no fewer bytes than a whole transaction.
    ///
    /// # Errors
    /// [`RecoverError`], never a panic, whatever the bytes.
    pub fn recover(&self, form: Form, bytes: &[u8]) -> Result<Arc<RecoveredTx>, RecoverError> {
        // The transaction's hash, unless the bytes carry blobs.
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
                // The cache keeps functions of the hash alone; blobs only pass through.
                Ok(Arc::new(tx.with_blobs(bytes)))
            }
            Decoded::WithBlobs(..) => Err(RecoverError::Rule(crate::chain::TxRuleError::Sidecar)),
        }
    }

    /// Does [`Self::recover`] for many, on all threads of `workers` and in order.
    pub fn recover_batch(
        &self,
        workers: &Workers,
        form: Form,
        encoded: &[Bytes],
    ) -> Vec<Result<Arc<RecoveredTx>, RecoverError>> {
        let recover = |bytes: &Bytes| self.recover(form, bytes);
        workers.install(|| encoded.par_iter().with_min_len(CHUNK).map(recover).collect())
    }

    /// The cached transaction with that hash, if it is valid by these rules.
    fn known(&self, hash: &B256) -> Result<Option<Arc<RecoveredTx>>, RecoverError> {
        let Some(known) = self.cache.as_ref().and_then(|cache| cache.get(hash)) else { return Ok(None) };
        if !known.is_checked_for(self.chain.chain_id(), self.spec) {
            // Recovered by the rules of another hard fork or chain: only the rules are checked again.
            if let Decoded::Plain(envelope) = decode(known.bytes(), *hash)? {
                self.chain.validate_tx(self.spec, &envelope)?;
            }
        }
        Ok(Some(known))
    }

    /// Checks the rules, recovers the signers, fills the cache.
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

/// Decodes a transaction of a block and recovers its sender, for an unknown chain: the signature must be canonical
/// (EIP-2), and no other rule is checked.
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

/// Does [`recover`] for many, in the current rayon pool and in order.
pub fn recover_all(encoded: &[Bytes]) -> Vec<Result<TxEnv, RecoverError>> {
    encoded.par_iter().with_min_len(CHUNK).map(|bytes| recover(bytes)).collect()
}
