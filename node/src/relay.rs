//! Transactions for the pools of other validators, by way of CometBFT's own RPC and mempool.
//!
//! This node proposes from its own pool, so CometBFT's mempool is only the way to the other pools: it gossips what
//! `broadcast_tx_async` gives it, and every validator's CheckTx puts it into that validator's pool. A transaction that finds
//! no room here is not lost: it stays in this node's pool, and waits for this node's turn to propose.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Request, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use phalanx::alloy::primitives::Bytes;
use serde_json::json;
use std::{error::Error, net::SocketAddr, time::Duration};
use tokio::{net::TcpStream, runtime::Handle, sync::mpsc, time};

/// Maximum number of transactions that wait for CometBFT.
const WAITING: usize = 16_384;

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

type Sending = http1::SendRequest<Full<hyper::body::Bytes>>;

/// Queue of transactions for CometBFT. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Relay(mpsc::Sender<Bytes>);

impl Relay {
    /// Starts a task that ends with the runtime.
    pub(crate) fn start(runtime: &Handle, address: SocketAddr) -> Self {
        let (sender, waiting) = mpsc::channel(WAITING);
        runtime.spawn(run(waiting, address));
        Self(sender)
    }

    /// Passes a transaction on, unless too many wait.
    pub(crate) fn pass(&self, tx: Bytes) {
        if self.0.try_send(tx).is_err() {
            tracing::debug!("CometBFT is behind: a transaction waits for this node's proposal");
        }
    }
}

async fn run(mut waiting: mpsc::Receiver<Bytes>, address: SocketAddr) {
    let (mut txs, mut connection, mut is_away) = (Vec::new(), None, false);
    while waiting.recv_many(&mut txs, BATCH).await > 0 {
        while !txs.is_empty() {
            let count = fitting(&txs);
            let sent = time::timeout(PATIENCE, send(&mut connection, address, &txs[..count])).await;
            match sent.unwrap_or_else(|_| Err("no answer".into())) {
                Ok(()) => {
                    txs.drain(..count);
                    is_away = false;
                }
                Err(error) => {
                    connection = None;
                    if !is_away {
                        tracing::warn!(%error, %address, "CometBFT takes no transactions; trying again");
                    }
                    is_away = true;
                    time::sleep(PAUSE).await;
                }
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
async fn send(
    connection: &mut Option<Sending>,
    address: SocketAddr,
    txs: &[Bytes],
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let sending = match connection {
        Some(sending) if !sending.is_closed() => sending,
        _ => connection.insert(connect(address).await?),
    };
    let call = |(id, tx): (usize, &Bytes)| json!({ "jsonrpc": "2.0", "id": id, "method": "broadcast_tx_async", "params": { "tx": STANDARD.encode(tx) } });
    let calls: Vec<_> = txs.iter().enumerate().map(call).collect();
    let request = Request::post("/")
        .header(header::HOST, address.to_string())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::from(serde_json::to_vec(&calls)?))?;
    sending.ready().await?;
    let response = sending.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER).collect().await?.to_bytes();
    if !status.is_success() {
        tracing::warn!(%status, answer = %String::from_utf8_lossy(&body), "CometBFT refuses a batch of transactions");
    }
    Ok(())
}

async fn connect(address: SocketAddr) -> Result<Sending, Box<dyn Error + Send + Sync>> {
    let stream = TcpStream::connect(address).await?;
    let (sending, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to CometBFT has ended");
        }
    });
    Ok(sending)
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
}
