//! A client that believes one message: now and then a transaction is awaited, and its acknowledgement verified under the group's key.

use alloy_primitives::{B256, Bytes, hex};
use phalanx_lab::error::Different;
use phalanx_merkle_proof::{Trust, verify_acknowledgement};
use phalanx_net::Acknowledgement;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// Time between two transactions that are awaited, in µs. Verification takes some ms of the driver.
const EVERY_US: u64 = 100_000;
/// Patience with an acknowledgement, in µs: then the client takes f+1 equal notices, as all others do.
const PATIENCE_US: u64 = 5_000_000;

/// Transactions that one message proved, as written.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Acknowledgements {
    /// Messages that were verified.
    verified: usize,
    /// Transactions whose message did not come.
    missed: u64,
    /// Length of the longest message.
    most_bytes: usize,
    /// Median time from the transaction to its message, in ms.
    p50_ms: f64,
}

/// The client that awaits.
#[derive(Debug)]
pub(crate) struct Sample {
    chain: u64,
    instance: B256,
    public_key: [u8; 96],
    awaited: Option<(B256, u64)>,
    next_us: u64,
    missed: u64,
    latencies_us: Vec<u64>,
    most_bytes: usize,
    /// The first message, as `state acknowledged` reads it.
    first: Option<Value>,
}

impl Sample {
    /// A client of a network, which has the public key of f+1 replicas.
    pub(crate) const fn new(chain: u64, instance: B256, public_key: [u8; 96]) -> Self {
        Self {
            chain,
            instance,
            public_key,
            awaited: None,
            next_us: 0,
            missed: 0,
            latencies_us: Vec::new(),
            most_bytes: 0,
            first: None,
        }
    }

    /// The transaction to await, if one of these is to be.
    pub(crate) fn choose(&mut self, now_us: u64, txs: &[Bytes]) -> Option<B256> {
        if self.awaited.is_some_and(|(_, since)| now_us > since + PATIENCE_US) {
            (self.awaited, self.missed) = (None, self.missed + 1);
        }
        let tx = txs.first().filter(|_| self.awaited.is_none() && now_us >= self.next_us)?;
        let hash = phalanx::api::transaction_hash(tx);
        (self.awaited, self.next_us) = (Some((hash, now_us)), now_us + EVERY_US);
        Some(hash)
    }

    /// Verifies a message.
    ///
    /// # Errors
    /// The message does not prove the transaction.
    pub(crate) fn on_message(&mut self, now_us: u64, message: &Acknowledgement) -> Result<(), Different> {
        let Acknowledgement { tx, bytes } = message;
        let (chain, instance) = (self.chain, self.instance.0);
        let trust = Trust { chain, epoch: 0, instance, public_key: &self.public_key };
        let known = verify_acknowledgement(&trust, &tx.0, bytes)
            .map_err(|error| Different(format!("the acknowledgement of {tx} proves nothing: {error}")))?;
        let Some((_, since)) = self.awaited.take_if(|(awaited, _)| awaited == tx) else { return Ok(()) };
        self.latencies_us.push(now_us.saturating_sub(since));
        self.most_bytes = self.most_bytes.max(bytes.len());
        self.first.get_or_insert_with(|| {
            json!({
                "chain": self.chain, "epoch": 0, "instance": self.instance,
                "public_key": hex::encode_prefixed(self.public_key), "transaction": tx, "message": bytes, "slot": known.slot,
            })
        });
        Ok(())
    }

    /// The first message, as `state acknowledged` reads it.
    pub(crate) const fn first(&self) -> Option<&Value> {
        self.first.as_ref()
    }

    pub(crate) fn written(&self) -> Acknowledgements {
        let mut sorted = self.latencies_us.clone();
        sorted.sort_unstable();
        let median = super::report::quantile(&sorted, 0.5) as f64 / 1_000.0;
        let (verified, missed) = (sorted.len(), self.missed);
        Acknowledgements { verified, missed, most_bytes: self.most_bytes, p50_ms: median }
    }

    /// Number of messages that were verified.
    pub(crate) const fn verified(&self) -> usize {
        self.latencies_us.len()
    }

    /// Length of the longest message, in bytes.
    pub(crate) const fn most_bytes(&self) -> usize {
        self.most_bytes
    }
}
