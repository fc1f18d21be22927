//! Recovery of senders from signatures: the first stage, and the dearest one.
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
//!
//! Hashes and signatures of the transactions that one call brings are computed side by side
//! ([`phalanx_recovery`]). No call waits for another to fill a batch.

mod batch;
mod cache;
mod canonical;
mod decode;
mod error;
mod forced;
mod sidecar;
mod signed;
mod transaction;

pub use cache::{CacheStats, RecoveryCache};
pub use canonical::{recover, recover_all};
pub use decode::is_transaction;
pub use error::RecoverError;
pub use forced::encode_forced;
pub use transaction::RecoveredTx;

use crate::chain::ChainSpec;
use alloy_consensus::TxEnvelope;
use alloy_eips::eip7594::BlobTransactionSidecarVariant;
use alloy_primitives::{B256, Bytes};
use batch::{hashed, in_chunks};
use decode::{Decoded, decode};
use forced::decode_forced;
use phalanx_paralyze::ForcedTx;
use phalanx_parascheduler::Workers;
use revm::{context::TxEnv, primitives::hardfork::SpecId};
use sidecar::{Pooled, check, strip};
use signed::signed;
use std::{borrow::Cow, sync::Arc};

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
    /// True if blocks may hold forced transactions.
    forced: bool,
}

impl Recovery {
    /// Creates a recovery by the rules of `spec` on `chain`, without a cache.
    pub fn new(chain: ChainSpec, spec: SpecId) -> Self {
        Self { chain: Arc::new(chain), spec, cache: None, forced: false }
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

    /// Decodes [`ForcedTx`] in blocks too, as [`encode_forced`] encodes them: for a chain that permits them
    /// ([`ChainRules::with_forced_transactions`](phalanx_paralyze::ChainRules::with_forced_transactions)).
    #[must_use]
    pub const fn with_forced_transactions(mut self) -> Self {
        self.forced = true;
        self
    }

    /// True after [`Self::with_forced_transactions`].
    pub(crate) const fn decodes_forced(&self) -> bool {
        self.forced
    }

    /// Decodes a transaction, checks the rules that need no state, and recovers its sender and the authorities of its
    /// authorizations. Cheap checks come first.
    ///
    /// Takes time linear in the bytes: an authorization's signature takes no fewer bytes than a whole transaction.
    ///
    /// # Errors
    /// [`RecoverError`], never a panic, whatever the bytes.
    pub fn recover(&self, form: Form, bytes: &[u8]) -> Result<Arc<RecoveredTx>, RecoverError> {
        self.recover_each(form, &[bytes]).pop().expect("a result per transaction")
    }

    /// Does [`Self::recover`] for many, on all threads of `workers` and in order.
    pub fn recover_batch(
        &self,
        workers: &Workers,
        form: Form,
        encoded: &[Bytes],
    ) -> Vec<Result<Arc<RecoveredTx>, RecoverError>> {
        workers.install(|| in_chunks(encoded, |chunk| self.recover_each(form, chunk)))
    }

    /// Does [`Self::recover`] for many, on the caller's thread and in order. Costs a fraction of as many single calls, as
    /// signatures are recovered side by side.
    pub fn recover_each<B: AsRef<[u8]>>(
        &self,
        form: Form,
        encoded: &[B],
    ) -> Vec<Result<Arc<RecoveredTx>, RecoverError>> {
        // Hashes of the transactions, unless the bytes carry blobs.
        let hashes = hashed(encoded);
        let mut open = Vec::with_capacity(encoded.len());
        let mut results = Vec::with_capacity(encoded.len());
        for (bytes, hash) in encoded.iter().zip(hashes) {
            results.push(match self.begin(form, bytes.as_ref(), hash) {
                Ok(Begun::Known(tx)) => Some(Ok(tx)),
                Ok(Begun::Open(tx)) => {
                    open.push(tx);
                    None
                }
                Err(error) => Some(Err(error)),
            });
        }
        let envelopes = open.iter().map(|open| &open.envelope);
        let mut recovered = signed(envelopes, self.chain.parameters().development).into_iter().zip(&open);
        let mut next = || {
            let (tx, open) = recovered.next().expect("a transaction per open result");
            self.finish(form, tx?, open)
        };
        results.into_iter().map(|result| result.unwrap_or_else(&mut next)).collect()
    }

    /// Does all that comes before the signature.
    fn begin<'a>(&self, form: Form, bytes: &'a [u8], hash: B256) -> Result<Begun<'a>, RecoverError> {
        if self.forced && bytes.first() == Some(&ForcedTx::TYPE) {
            let Form::Block = form else { return Err(RecoverError::Forced) };
            let tx = decode_forced(bytes)?.env();
            let checked = Some((self.chain.chain_id(), self.spec));
            // Nothing was costly, so the cache is left to signatures.
            let tx = RecoveredTx::new(hash, Bytes::copy_from_slice(bytes), tx, checked);
            return Ok(Begun::Known(Arc::new(tx)));
        }
        if let Some(known) = self.known(&hash)? {
            return known.as_form(form).map(Begun::Known);
        }
        let open = match decode(bytes, hash)? {
            Decoded::Plain(envelope) => Open { envelope, bytes: Cow::Borrowed(bytes), hash, pooled: None },
            Decoded::WithBlobs(envelope, sidecar) if form == Form::Pooled => {
                let digest = hash;
                let (envelope, block_bytes, hash) = strip(envelope, &sidecar, self.spec)?;
                let blobs = Blobs { bytes, digest, sidecar };
                if let Some(known) = self.known(&hash)? {
                    return Ok(Begun::Known(Arc::new(known.with_blobs(self.checked(&blobs)?))));
                }
                Open { envelope, bytes: Cow::Owned(block_bytes), hash, pooled: Some(blobs) }
            }
            Decoded::WithBlobs(..) => return Err(RecoverError::Rule(crate::chain::TxRuleError::Sidecar)),
        };
        self.chain.validate_tx(self.spec, &open.envelope)?;
        Ok(Begun::Open(open))
    }

    /// Fills the cache, which keeps functions of the hash alone: blobs only pass through.
    fn finish(&self, form: Form, tx: TxEnv, open: &Open<'_>) -> Result<Arc<RecoveredTx>, RecoverError> {
        let checked = Some((self.chain.chain_id(), self.spec));
        let tx = Arc::new(RecoveredTx::new(open.hash, Bytes::copy_from_slice(&open.bytes), tx, checked));
        let tx = match &self.cache {
            Some(cache) => cache.keep(tx),
            None => tx,
        };
        match &open.pooled {
            // The dearest check is the last.
            Some(blobs) => Ok(Arc::new(tx.with_blobs(self.checked(blobs)?))),
            None => tx.as_form(form),
        }
    }

    /// Checks that the proofs are those of the blobs: once for the same bytes, as that takes milliseconds per blob.
    fn checked(&self, blobs: &Blobs<'_>) -> Result<Pooled, RecoverError> {
        let check = || check(&blobs.sidecar);
        match &self.cache {
            Some(cache) => cache.prove(blobs.digest, check)?,
            None => check()?,
        }
        Ok(Pooled::new(blobs.bytes, &blobs.sidecar))
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
}

/// A transaction before its signature is looked at.
#[expect(
    clippy::large_enum_variant,
    reason = "most transactions are open, and a box for each costs more than the place"
)]
enum Begun<'a> {
    /// Found in the cache.
    Known(Arc<RecoveredTx>),
    /// Valid but for the signature.
    Open(Open<'a>),
}

/// A transaction whose signature is open.
struct Open<'a> {
    envelope: TxEnvelope,
    /// Encoding as a block holds it.
    bytes: Cow<'a, [u8]>,
    /// Hash of `bytes`.
    hash: B256,
    /// Encoding with blobs, if they came with it.
    pooled: Option<Blobs<'a>>,
}

/// The encoding of a transaction with its blobs.
struct Blobs<'a> {
    bytes: &'a [u8],
    /// Keccak-256 of `bytes`.
    digest: B256,
    sidecar: Box<BlobTransactionSidecarVariant>,
}
