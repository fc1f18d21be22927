//! The server: a task per connection reads frames, and a second one answers them in order.

use super::{
    IN_FLIGHT,
    wire::{self, Code, Ended, GREETING, Verdict},
};
use crate::{
    config::{IngressAddress, RpcConfig},
    edge::{Accepted, Account, Connection, Cut, Held, Listener, Pace, Patience, Places, Pool, Socket},
    error::NodeError,
    intake::{Fate, Fates, Intake, NoFate, Unadmitted},
    metrics::Metrics,
    raw,
    upstream::UpstreamError,
};
use alloy_primitives::{B256, Bytes};
use phalanx::{SendError, pool::Refusal};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader, ReadHalf, WriteHalf},
    sync::{mpsc, watch},
};

/// Bytes that a connection holds beside those of all: others cannot take them.
const OWN: usize = 64 << 10;

/// Memory of a transaction beside its bytes, from its frame to its verdict, in bytes.
const TX_BYTES: usize = 256;

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// Time that a client has to take the last frame.
const GOODBYE: Duration = Duration::from_secs(1);

/// A running ingress. Its connections end when the node stops.
#[derive(Debug)]
pub(crate) struct Ingress {
    pub(crate) addresses: Vec<IngressAddress>,
    stops: watch::Sender<bool>,
    places: Places,
}

/// Parts that all connections share.
#[derive(Debug)]
struct Host {
    intake: Arc<Intake>,
    metrics: Arc<Metrics>,
    limits: RpcConfig,
    /// Bytes of frames that arrive or are answered.
    pool: Arc<Pool>,
    stops: watch::Receiver<bool>,
}

/// A frame whose verdicts follow.
#[derive(Debug)]
struct Frame {
    arrived: Instant,
    txs: Vec<Bytes>,
    /// `None` if there is no memory for them.
    fates: Option<Fates>,
    _held: Held,
}

impl Ingress {
    /// Listens on all addresses.
    ///
    /// # Errors
    /// [`NodeError::Ingress`].
    pub(crate) fn start(
        addresses: &[IngressAddress],
        limits: &RpcConfig,
        intake: &Arc<Intake>,
        metrics: &Arc<Metrics>,
        places: Places,
    ) -> Result<Self, NodeError> {
        let (stop, stops) = watch::channel(false);
        let host = Arc::new(Host {
            intake: Arc::clone(intake),
            metrics: Arc::clone(metrics),
            limits: limits.clone(),
            pool: Pool::new(limits.max_request_bytes),
            stops,
        });
        let mut ingress = Self { addresses: Vec::new(), stops: stop, places };
        for address in addresses {
            let failed = |source| NodeError::Ingress { address: address.to_string(), source };
            let name = "the binary ingress";
            let (listener, bound) = match address {
                IngressAddress::Tcp(address) => {
                    let listener = Listener::bind(*address, &ingress.places, name, b"").map_err(failed)?;
                    let bound = IngressAddress::Tcp(listener.address().map_err(failed)?);
                    (listener, bound)
                }
                IngressAddress::Unix(path) => {
                    (Listener::bind_path(path, &ingress.places, name).map_err(failed)?, address.clone())
                }
            };
            ingress.addresses.push(bound);
            tokio::spawn(Arc::clone(&host).accept(listener));
        }
        Ok(ingress)
    }

    /// Ends all connections, behind the verdicts of what has arrived.
    pub(crate) async fn stop(self, patience: Duration) {
        self.stops.send_replace(true);
        let _ = tokio::time::timeout(patience, self.places.all_free()).await;
    }
}

/// Waits until the node stops.
async fn stopped(stops: &mut watch::Receiver<bool>) {
    // An error means that the node has ended.
    let _ = stops.wait_for(|stops| *stops).await;
}

impl Host {
    async fn accept(self: Arc<Self>, listener: Listener) {
        let Self { limits, pool, .. } = &*self;
        let pace = Pace { patience: limits.patience, rate: limits.rate.max(1) };
        let patience = Patience { pace, first: limits.idle, idle: limits.idle };
        let mut stops = self.stops.clone();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stopped(&mut stops) => return,
            };
            let Some(Accepted { stream, place }) = accepted else {
                self.metrics.rpc.refused();
                continue;
            };
            self.metrics.rpc.connected();
            let account = || Account::new(pool, OWN, usize::MAX);
            let connection = Connection::new(patience, account(), account(), Instant::now());
            let socket = Socket::new(stream, Arc::clone(&connection));
            let host = Arc::clone(&self);
            tokio::spawn(async move {
                host.serve(socket, &connection).await;
                host.metrics.rpc.disconnected(connection.why());
                drop(place);
            });
        }
    }

    /// Serves a connection to its end.
    async fn serve(&self, socket: Socket, connection: &Arc<Connection>) {
        connection.upgrade(Instant::now());
        let (read, write) = tokio::io::split(socket);
        let (offered, frames) = mpsc::channel(IN_FLIGHT);
        let mut stops = self.stops.clone();
        let receive = async {
            let ended = tokio::select! {
                ended = self.receive(BufReader::with_capacity(CHUNK, read), connection, &offered) => ended,
                // Verdicts are not read any more.
                () = offered.closed() => None,
                () = stopped(&mut stops) => Some(Ended::Stops),
            };
            // The answers to what has arrived come first.
            drop(offered);
            ended
        };
        let (ended, mut write) =
            tokio::join!(receive, self.answer(write, wire::hello(self.limits.max_request), frames));
        if let (Some(why), Some(write)) = (ended, &mut write) {
            let mut out = Vec::new();
            wire::write_end(why, &mut out);
            let goodbye = async {
                write.write_all(&out).await?;
                write.shutdown().await
            };
            let _ = tokio::time::timeout(GOODBYE, goodbye).await;
        }
    }

    /// Reads and offers frames. Returns the reason for which the node ends the connection; `None` if the client has.
    async fn receive(
        &self,
        mut read: BufReader<ReadHalf<Socket>>,
        connection: &Connection,
        offered: &mpsc::Sender<Frame>,
    ) -> Option<Ended> {
        let gone = || (connection.why() == Some(Cut::Full)).then_some(Ended::Full);
        let mut greeting = [0; GREETING.len()];
        if read.read_exact(&mut greeting).await.is_err() {
            return gone();
        }
        if greeting != GREETING {
            return Some(Ended::Greeting);
        }
        drop(connection.complete(Instant::now()));
        loop {
            // Nothing is read that could not be begun.
            let Ok(place) = offered.reserve().await else { return None };
            connection.rest(Instant::now());
            let Ok(len) = read.read_u32().await else { return gone() };
            connection.begin(Instant::now());
            if len > self.limits.max_request {
                return Some(Ended::TooLong);
            }
            let Some(frame) = body(&mut read, len as usize).await else { return gone() };
            let arrived = Instant::now();
            let mut held = connection.complete(arrived);
            let txs = match wire::read_txs(&frame) {
                Ok(txs) => txs,
                Err(why) => return Some(why),
            };
            let counted = held.grow(frame.len().saturating_sub(held.bytes()) + TX_BYTES * txs.len());
            let fates = match counted {
                Ok(()) => Some(self.intake.offer_in_turn(txs.clone()).await),
                Err(_) => None,
            };
            place.send(Frame { arrived, txs, fates, _held: held });
        }
    }

    /// Answers frames in order. Answers that are there together are written together. Returns the socket once no frame follows.
    async fn answer(
        &self,
        mut write: WriteHalf<Socket>,
        mut out: Vec<u8>,
        mut frames: mpsc::Receiver<Frame>,
    ) -> Option<WriteHalf<Socket>> {
        loop {
            let mut frame = match frames.try_recv() {
                Ok(frame) => frame,
                Err(_) => {
                    write.write_all(&out).await.ok()?;
                    out.clear();
                    let Some(frame) = frames.recv().await else { return Some(write) };
                    frame
                }
            };
            let there = frame.fates.as_mut().and_then(Fates::ready);
            if there.is_none() && frame.fates.is_some() || out.len() >= CHUNK {
                // Nothing that is there waits for what is not, or for much more.
                write.write_all(&out).await.ok()?;
                out.clear();
            }
            let fates = match (there, frame.fates) {
                (Some(there), _) => there,
                (None, Some(fates)) => fates.all().await,
                (None, None) => Err(NoFate::Full),
            };
            let verdicts: Vec<_> = match fates {
                Ok(fates) => fates.into_iter().zip(&frame.txs).map(|(fate, tx)| verdict(fate, tx)).collect(),
                Err(_) => frame.txs.iter().map(|tx| named(Code::Busy, tx)).collect(),
            };
            let is_refused = verdicts.iter().any(|verdict| verdict.code != Code::Admitted);
            self.metrics.rpc.request("ingress", is_refused, frame.arrived.elapsed());
            wire::write_verdicts(&verdicts, &mut out);
        }
    }
}

/// Reads the rest of a frame; `None` at the end of the connection. What is reserved stays close to what has arrived.
async fn body(read: &mut BufReader<ReadHalf<Socket>>, len: usize) -> Option<Bytes> {
    let mut frame = Vec::with_capacity(len.min(CHUNK));
    while frame.len() < len {
        if frame.len() == frame.capacity() {
            frame.reserve_exact((len - frame.len()).min(frame.len()));
        }
        let room = (frame.capacity() - frame.len()).min(len - frame.len());
        let read = (&mut *read).take(room as u64).read_buf(&mut frame).await.ok()?;
        if read == 0 {
            return None;
        }
    }
    Some(frame.into())
}

fn verdict(fate: Fate, tx: &Bytes) -> Verdict {
    let why = match fate {
        Ok(hash) => return Verdict { code: Code::Admitted, hash },
        Err(why) => why,
    };
    let code = match &why {
        Unadmitted::Upstream(UpstreamError::Refused { .. }) | Unadmitted::Misnamed(_) => Code::Refused,
        Unadmitted::Unsent(SendError::State(_)) | Unadmitted::Upstream(_) => Code::Busy,
        Unadmitted::Unsent(_) => return Verdict { code: Code::Malformed, hash: B256::ZERO },
        Unadmitted::Refused(refusal) => match refusal {
            Refusal::Known => Code::Known,
            Refusal::NonceUsed { .. } | Refusal::InFlight { .. } => Code::NonceUsed,
            Refusal::NonceTooFar { .. } => Code::NonceTooFar,
            Refusal::Funds { .. } | Refusal::CostOverflow => Code::Funds,
            Refusal::Underpriced { .. } | Refusal::ReplacementUnderpriced { .. } => Code::Underpriced,
            Refusal::Full | Refusal::SenderFull { .. } => Code::PoolFull,
            _ => Code::Refused,
        },
    };
    named(code, tx)
}

/// Verdict on a transaction that is not in the pool.
fn named(code: Code, tx: &Bytes) -> Verdict {
    Verdict { code, hash: raw::hash_of(tx).unwrap_or_default() }
}
