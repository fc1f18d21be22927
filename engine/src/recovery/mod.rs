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

mod cache;
mod decode;
mod error;
mod forced;
mod signed;
mod transaction;

pub use cache::{CacheStats, RecoveryCache};
pub use error::RecoverError;
pub use forced::encode_forced;
pub use transaction::RecoveredTx;

use crate::chain::ChainSpec;
use alloy_consensus::{TxEnvelope, crypto::SECP256K1N_HALF};
use alloy_primitives::{B256, Bytes};
use decode::{Decoded, decode, strip};
use forced::decode_forced;
use phalanx_hash_lanes::keccak256_many;
use phalanx_paralyze::ForcedTx;
use phalanx_parascheduler::Workers;
use rayon::prelude::*;
use revm::{context::TxEnv, primitives::hardfork::SpecId};
use signed::signed;
use std::{borrow::Cow, sync::Arc};

/// Multiple of signatures that fills all lanes.
const LANES: usize = 16;

/// Maximum number of transactions of a chunk: half a millisecond of work, so that the last chunk of a batch is short.
const CHUNK: usize = 128;

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
                let (envelope, block_bytes, hash) = strip(envelope, &sidecar, self.spec)?;
                if let Some(known) = self.known(&hash)? {
                    return Ok(Begun::Known(Arc::new(known.with_blobs(bytes))));
                }
                Open { envelope, bytes: Cow::Owned(block_bytes), hash, pooled: Some(bytes) }
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
        match open.pooled {
            Some(pooled) => Ok(Arc::new(tx.with_blobs(pooled))),
            None => tx.as_form(form),
        }
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
    /// Encoding with blobs, if these came with it.
    pooled: Option<&'a [u8]>,
}

/// Decodes a transaction of a block and recovers its sender, for an unknown chain: the signature must be canonical
/// (EIP-2), and no other rule is checked.
///
/// # Errors
/// [`RecoverError`], never a panic, whatever the bytes.
pub fn recover(bytes: &[u8]) -> Result<TxEnv, RecoverError> {
    recover_each(&[bytes]).pop().expect("a result per transaction")
}

/// Does [`recover`] for many, in the current rayon pool and in order.
pub fn recover_all(encoded: &[Bytes]) -> Vec<Result<TxEnv, RecoverError>> {
    in_chunks(encoded, recover_each)
}

fn recover_each<B: AsRef<[u8]>>(encoded: &[B]) -> Vec<Result<TxEnv, RecoverError>> {
    let hashes = hashed(encoded);
    let decoded: Vec<_> = encoded.iter().zip(hashes).map(|(bytes, hash)| canonical(bytes.as_ref(), hash)).collect();
    let mut recovered = signed(decoded.iter().flatten(), false).into_iter();
    let mut next = |_| recovered.next().expect("a result per decoded transaction");
    decoded.into_iter().map(|decoded| decoded.and_then(&mut next)).collect()
}

/// Decodes a transaction of a block, whose signature must be canonical.
fn canonical(bytes: &[u8], hash: B256) -> Result<TxEnvelope, RecoverError> {
    match decode(bytes, hash)? {
        Decoded::Plain(envelope) if envelope.signature().s() > SECP256K1N_HALF => Err(RecoverError::Signature),
        Decoded::Plain(envelope) => Ok(envelope),
        Decoded::WithBlobs(..) => Err(RecoverError::Rule(crate::chain::TxRuleError::Sidecar)),
    }
}

/// Keccak-256 of each transaction's bytes.
fn hashed<B: AsRef<[u8]>>(encoded: &[B]) -> Vec<B256> {
    let mut hashes = Vec::new();
    keccak256_many(encoded.iter().map(AsRef::as_ref), &mut hashes);
    hashes
}

/// Recovers chunks on all threads of the current rayon pool, each of them full lanes where there are enough transactions.
fn in_chunks<R: Send>(encoded: &[Bytes], recover: impl Fn(&[Bytes]) -> Vec<R> + Send + Sync) -> Vec<R> {
    let share = encoded.len().div_ceil(rayon::current_num_threads());
    let chunk = share.next_multiple_of(LANES).clamp(LANES, CHUNK);
    encoded.par_chunks(chunk).flat_map_iter(recover).collect()
}
