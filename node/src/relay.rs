//! Transactions for the pools of other validators, by way of CometBFT's own RPC and mempool.
//!
//! This node proposes from its own pool, so CometBFT's mempool is only the way to the other pools: it gossips what
//! `broadcast_tx_async` gives it, and every validator's CheckTx puts it into that validator's pool. A transaction that finds
//! no room here is not lost: it stays in this node's pool, and waits for this node's turn to propose.
//!
//! A CometBFT with the application's mempool (`mempool.type = "app"`) gossips nothing that it is given. It fetches the waiting transactions
//! instead, and hands over those of the other validators. Its first question is the sign: from then on nothing is sent. What it was
//! sent before has gone nowhere, so the first answers begin with the whole pool.

use crate::http::{Client, Failed, Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use phalanx::alloy::primitives::Bytes;
use serde_json::json;
use std::{
    collections::{HashSet, VecDeque},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Handle, sync::Notify, time};

/// Maximum number of transactions that wait for CometBFT.
const WAITING: usize = 16_384;

/// Maximum size of the transactions that wait for CometBFT, in bytes.
const WAITING_BYTES: usize = 64 << 20;

/// Maximum size of the transactions of an answer to a CometBFT that fetches them, in bytes, whatever it asks for.
const REAPED_BYTES: u64 = 4 << 20;

/// Maximum number of requests in a batch that CometBFT answers by default.
const BATCH: usize = 10;

/// Maximum size of the transactions of a batch, in bytes: CometBFT reads requests of 1 MB, in base64.
const BATCH_BYTES: usize = 600_000;

/// Maximum size of an answer, in bytes.
const ANSWER: usize = 1 << 20;

/// Time after which a CometBFT that does not answer is asked again.
const PAUSE: Duration = Duration::from_millis(250);

/// Time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Queue of transactions for CometBFT. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Relay(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    bell: Notify,
    /// True once CometBFT fetches transactions itself: then none are sent.
    is_reaped: AtomicBool,
}

/// Transactions in order, bounded in number and size.
#[derive(Debug, Default)]
struct Waiting {
    txs: VecDeque<Bytes>,
    bytes: usize,
}

impl Waiting {
    /// Adds a transaction; returns false if there is no room.
    fn push(&mut self, tx: Bytes) -> bool {
        let has_room = self.txs.len() < WAITING && self.bytes + tx.len() <= WAITING_BYTES;
        if has_room {
            self.bytes += tx.len();
            self.txs.push_back(tx);
        }
        has_room
    }

    /// Takes the first transaction if it has at most so many bytes.
    fn pop(&mut self, most: u64) -> Option<Bytes> {
        let tx = self.txs.pop_front_if(|tx| tx.len() as u64 <= most)?;
        self.bytes -= tx.len();
        Some(tx)
    }
}

impl Relay {
    /// Starts a task that ends with the runtime, or once CometBFT fetches transactions.
    pub(crate) fn start(runtime: &Handle, address: SocketAddr) -> Self {
        let queue = Arc::new(Queue::default());
        runtime.spawn(run(Arc::clone(&queue), address));
        Self(queue)
    }

    /// Passes a transaction on, unless too many wait.
    pub(crate) fn pass(&self, tx: Bytes) {
        let has_room = self.0.waiting.lock().push(tx);
        if has_room {
            self.0.bell.notify_one();
        } else {
            tracing::debug!("CometBFT is behind: a transaction waits for this node's proposal");
        }
    }

    /// Passes on a transaction that has come from another validator: CometBFT does not do that itself if it fetches transactions.
    pub(crate) fn forward(&self, tx: Bytes) {
        if self.0.is_reaped.load(Ordering::Relaxed) {
            self.pass(tx);
        }
    }

    /// Takes transactions of at most so many bytes, and of 4 MiB, for a CometBFT that fetches them. A longer one that is the first is
    /// dropped, since it would be in the way for good, and so is each that has left the pool. `pool` is the pool's transactions; the
    /// first call queues them.
    pub(crate) fn reap(
        &self,
        max_bytes: u64,
        pool: impl FnOnce() -> Vec<Bytes>,
        is_pooled: impl Fn(&Bytes) -> bool,
    ) -> Vec<Bytes> {
        let max_bytes = max_bytes.min(REAPED_BYTES);
        if !self.0.is_reaped.swap(true, Ordering::Relaxed) {
            tracing::info!("CometBFT fetches transactions: it has the application's mempool");
            self.0.bell.notify_one();
            self.seed(&pool());
        }
        let (mut taken, mut left) = (Vec::new(), max_bytes);
        let mut waiting = self.0.waiting.lock();
        while let Some(len) = waiting.txs.front().map(|tx| tx.len() as u64) {
            let Some(tx) = waiting.pop(if len > max_bytes { len } else { left }) else { break };
            if len <= max_bytes && is_pooled(&tx) {
                left -= len;
                taken.push(tx);
            }
        }
        taken
    }

    /// Puts the pool's transactions before those that have come since they were listed.
    fn seed(&self, pooled: &[Bytes]) {
        let listed: HashSet<&Bytes> = pooled.iter().collect();
        let mut waiting = self.0.waiting.lock();
        let later = core::mem::take(&mut *waiting).txs;
        let all = pooled.iter().chain(later.iter().filter(|tx| !listed.contains(tx)));
        let left_out = all.filter(|tx| !waiting.push((*tx).clone())).count();
        if left_out > 0 {
            tracing::warn!(left_out, "more transactions than CometBFT is offered wait for this node's proposal");
        }
    }
}

async fn run(queue: Arc<Queue>, address: SocketAddr) {
    let Ok(client) = Client::new(&format!("http://{address}")) else { return };
    let mut is_away = false;
    loop {
        let txs: Vec<Bytes> = queue.waiting.lock().txs.iter().take(BATCH).cloned().collect();
        if queue.is_reaped.load(Ordering::Relaxed) {
            return;
        }
        if txs.is_empty() {
            queue.bell.notified().await;
            continue;
        }
        let count = fitting(&txs);
        let sent = time::timeout(PATIENCE, send(&client, &txs[..count])).await;
        match sent.unwrap_or_else(|_| Err("no answer".into())) {
            Ok(()) => {
                is_away = false;
                let mut waiting = queue.waiting.lock();
                // A CometBFT that fetches them meanwhile may have them twice.
                if !queue.is_reaped.load(Ordering::Relaxed) {
                    (0..count).for_each(|_| _ = waiting.pop(u64::MAX));
                }
            }
            Err(error) => {
                if !is_away {
                    tracing::warn!(%error, %address, "CometBFT takes no transactions; trying again");
                }
                is_away = true;
                time::sleep(PAUSE).await;
            }
        }
    }
}

/// Number of transactions that a batch has room for; at least one.
fn fitting(txs: &[Bytes]) -> usize {
    let mut size = 0;
    let fit = txs.iter().take_while(|tx| {
        size += tx.len();
        size <= BATCH_BYTES
    });
    fit.count().max(1)
}

/// Sends a batch. An answer of any content ends it: a transaction that CometBFT refuses stays in this node's pool.
async fn send(client: &Client, txs: &[Bytes]) -> Result<(), Failed> {
    let call = |(id, tx): (usize, &Bytes)| json!({ "jsonrpc": "2.0", "id": id, "method": "broadcast_tx_async", "params": { "tx": STANDARD.encode(tx) } });
    let calls: Vec<_> = txs.iter().enumerate().map(call).collect();
    let Response { status, body, .. } = client.post(serde_json::to_vec(&calls)?, ANSWER).await?;
    if !status.is_success() {
        tracing::warn!(%status, answer = %String::from_utf8_lossy(&body), "CometBFT refuses a batch of transactions");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_a_size() {
        let txs = |sizes: &[usize]| sizes.iter().map(|size| vec![0; *size].into()).collect::<Vec<Bytes>>();
        assert_eq!(fitting(&txs(&[1; 10])), 10);
        assert_eq!(fitting(&txs(&[300_000, 300_000, 1])), 2);
        assert_eq!(fitting(&txs(&[700_000, 1])), 1, "CometBFT decides about a large one");
    }

    #[test]
    fn transactions_are_fetched_once_in_order_and_within_the_size() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        // Nothing runs on the runtime: nothing is sent.
        let relay = Relay::start(runtime.handle(), SocketAddr::from(([127, 0, 0, 1], 1)));
        let tx = |byte: u8, len: usize| Bytes::from(vec![byte; len]);
        relay.forward(tx(9, 1));
        let any = |_: &Bytes| true;
        assert!(
            relay.reap(u64::MAX, Vec::new, any).is_empty(),
            "until CometBFT fetches, it forwards transactions itself"
        );
        (1..=4).for_each(|byte| relay.pass(tx(byte, 10)));
        relay.forward(tx(5, 10));
        assert_eq!(relay.reap(25, Vec::new, any), [tx(1, 10), tx(2, 10)]);
        assert_eq!(relay.reap(10, Vec::new, any), [tx(3, 10)]);
        relay.pass(tx(6, 3));
        assert_eq!(relay.reap(9, Vec::new, any), [tx(6, 3)], "those that never fit are not in the way");
        assert!(relay.reap(u64::MAX, Vec::new, any).is_empty());
        (0..WAITING + 1).for_each(|_| relay.pass(tx(7, 1)));
        assert_eq!(relay.reap(u64::MAX, Vec::new, any).len(), WAITING);
        (1..=3).for_each(|byte| relay.pass(tx(byte, 10)));
        assert_eq!(
            relay.reap(20, Vec::new, |tx| tx[0] != 1),
            [tx(2, 10), tx(3, 10)],
            "one that has left the pool takes no room"
        );
        assert!(relay.reap(u64::MAX, Vec::new, any).is_empty());
    }

    #[test]
    fn the_first_answer_begins_with_the_pool_and_has_each_transaction_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let relay = Relay::start(runtime.handle(), SocketAddr::from(([127, 0, 0, 1], 1)));
        let tx = |byte: u8| Bytes::from(vec![byte; 10]);
        // Two wait, of which the pool's list has one; a third was sent before, and is in the list alone.
        relay.pass(tx(2));
        relay.pass(tx(3));
        assert_eq!(relay.reap(20, || vec![tx(1), tx(2)], |_| true), [tx(1), tx(2)]);
        assert_eq!(relay.reap(20, || vec![tx(1), tx(2), tx(3)], |_| true), [tx(3)], "the pool is listed once");
        assert!(relay.reap(20, Vec::new, |_| true).is_empty());
    }

    #[test]
    fn the_queue_and_an_answer_have_a_size() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let relay = Relay::start(runtime.handle(), SocketAddr::from(([127, 0, 0, 1], 1)));
        let long = Bytes::from(vec![1; 1 << 20]);
        (0..100).for_each(|_| relay.pass(long.clone()));
        let reap = || relay.reap(u64::MAX, Vec::new, |_| true).len();
        let taken: Vec<_> = core::iter::repeat_with(reap).take_while(|count| *count > 0).collect();
        assert_eq!(taken, [4; 16], "64 of 1 MiB, 4 at a time");
        assert_eq!(relay.0.waiting.lock().bytes, 0);
        relay.pass(long);
        assert_eq!(reap(), 1, "there is room again");
    }
}
