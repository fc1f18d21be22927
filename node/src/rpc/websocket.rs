//! WebSocket: requests are read as long as few are in flight, and everything that is sent waits in one outbox.

use super::{
    answer::{self, Answer, Out},
    api::stopped,
    dispatch::{Caller, Dispatch, Reply},
    engine,
    error::RpcError,
    frames::{self, Broken, GOING_AWAY, Incoming, NORMAL, Reader},
    outbox::{Message, Outbox},
    request::{self, Body, Member},
    subscribe::Subscriptions,
    turns::{Line, Turn, is_ordered},
};
use crate::edge::{Held, Socket};
use serde_json::value::RawValue;
use soketto::base::OpCode;
use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _, BufWriter, ReadHalf},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::timeout_at,
};

/// Interval of the pings: a client that is there answers them.
const PING: Duration = Duration::from_secs(30);

/// Time that a client may take to end the connection behind the node's last message.
const GOODBYE: Duration = Duration::from_secs(1);

/// Serves a connection to its end. `arrived` is what has been read behind the handshake.
pub(super) async fn serve(
    socket: Socket,
    arrived: Vec<u8>,
    dispatch: Arc<Dispatch>,
    caller: Caller,
    subscriptions: Arc<Subscriptions>,
    stops: watch::Receiver<bool>,
) {
    let limits = &dispatch.api.limits;
    let connection = Arc::clone(&caller.connection);
    let outbox = Outbox::new(&connection.answers, limits.max_behind);
    let in_flight = limits.max_in_flight.clamp(1, Semaphore::MAX_PERMITS);
    let (read, write) = tokio::io::split(socket);
    let reader = Reader::new(read, arrived, limits.max_request as usize);
    let session = Session {
        dispatch: Arc::clone(&dispatch),
        caller: Arc::new(caller),
        subscriptions: Arc::clone(&subscriptions),
        outbox: Arc::clone(&outbox),
        places: Arc::new(Semaphore::new(in_flight)),
        orders: Arc::new(Semaphore::new(in_flight)),
        in_flight,
    };
    // Reading ends with a last message in the outbox, so that only the other two end the connection.
    tokio::select! {
        () = session.receive(reader, stops) => {}
        _ = send(write, &outbox) => {}
        () = subscriptions.follow(&outbox, &connection) => {}
    }
}

/// Reading side of a connection, as long as it is read from.
#[derive(Debug)]
struct Session {
    dispatch: Arc<Dispatch>,
    caller: Arc<Caller>,
    subscriptions: Arc<Subscriptions>,
    outbox: Arc<Outbox>,
    /// Requests in flight: from their arrival until their answers are written.
    places: Arc<Semaphore>,
    /// Requests with a turn: from their arrival until they are done, which may be later than their answers.
    orders: Arc<Semaphore>,
    in_flight: usize,
}

/// A request that has arrived, with everything that its answer needs.
#[derive(Debug)]
struct Arrived {
    dispatch: Arc<Dispatch>,
    caller: Arc<Caller>,
    subscriptions: Arc<Subscriptions>,
    outbox: Arc<Outbox>,
    body: Vec<u8>,
    held: Held,
    place: OwnedSemaphorePermit,
}

impl Arrived {
    async fn answer(self) {
        let Self { dispatch, caller, subscriptions, outbox, body, held, place } = self;
        let reply = dispatch.answer(&body, held, &caller).await;
        drop(body);
        put(reply, &subscriptions, &outbox, place);
    }

    /// Answers behind the requests with earlier turns. A call that has not been answered by then gets the answer to a late one, and is
    /// carried out none the less.
    async fn answer_in_turn(self, mut turn: Turn, until: Instant) {
        let Self { dispatch, caller, subscriptions, outbox, body, held, place } = self;
        let mut answering = pin!(async {
            turn.begin().await;
            let reply = dispatch.answer(&body, held, &caller).await;
            drop(turn);
            reply
        });
        let reply = match timeout_at(until.into(), answering.as_mut()).await {
            Ok(reply) => reply,
            Err(_) => match late(&body, &dispatch, &caller) {
                Some(answer) => {
                    outbox.answer(answer, place);
                    answering.await;
                    return;
                }
                None => answering.await,
            },
        };
        put(reply, &subscriptions, &outbox, place);
    }
}

/// Sends an answer, and begins the subscriptions of its request behind it.
fn put(reply: Reply, subscriptions: &Subscriptions, outbox: &Arc<Outbox>, place: OwnedSemaphorePermit) {
    subscriptions.start(reply.begun, outbox, || {
        if let Some(answer) = reply.answer {
            outbox.answer(answer, place);
        }
    });
}

/// Answer to a call that is not carried out in time; `None` if the body is another one.
fn late(body: &[u8], dispatch: &Dispatch, caller: &Caller) -> Option<Answer> {
    let Ok(Body::One(text)) = Body::read(body) else { return None };
    let Member::Call(id, request) = request::read(text) else { return None };
    let mut out = Out::new(&caller.connection.answers, dispatch.api.limits.max_response as usize);
    out.result(id, &engine::late(&request.method)?).ok()?;
    Some(out.finish())
}

impl Session {
    /// Reads and starts requests, until the client goes or the node stops.
    async fn receive(&self, mut reader: Reader<ReadHalf<Socket>>, mut stops: watch::Receiver<bool>) {
        // Requests end with their connection, but for those with a turn.
        let mut running = JoinSet::new();
        let code = tokio::select! {
            broken = self.requests(&mut reader, &mut running) => match broken {
                Ok(()) => NORMAL,
                Err(broken) => {
                    tracing::debug!(%broken, "a WebSocket ends");
                    let Some(code) = broken.code() else { return };
                    if code == frames::TOO_BIG {
                        self.refuse(&broken).await;
                    }
                    code
                }
            },
            () = stopped(&mut stops) => {
                // Requests in flight are answered.
                let _ = self.places.acquire_many(u32::try_from(self.in_flight).unwrap_or(u32::MAX)).await;
                GOING_AWAY
            }
        };
        self.outbox.close(code);
        core::future::pending().await
    }

    /// Answers a message that is too long, as HTTP does.
    async fn refuse(&self, broken: &Broken) {
        let error = RpcError::of(jsonrpsee::types::error::OVERSIZED_REQUEST_CODE, broken.to_string());
        if let Ok(place) = Arc::clone(&self.places).acquire_owned().await {
            self.outbox.answer(answer::error(RawValue::NULL, error), place);
        }
    }

    async fn requests(&self, reader: &mut Reader<ReadHalf<Socket>>, running: &mut JoinSet<()>) -> Result<(), Broken> {
        let connection = &self.caller.connection;
        let max = self.dispatch.api.limits.max_request as usize;
        let (mut line, has_order) = (Line::default(), self.dispatch.has_order());
        loop {
            // Nothing is read that could not be begun.
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else { return Ok(()) };
            let Ok(order) = Arc::clone(&self.orders).acquire_owned().await else { return Ok(()) };
            connection.requests.at_most(max).await;
            connection.rest(Instant::now());
            let body = loop {
                if reader.is_amid() {
                    // It came together with what was before: its time runs already.
                    connection.begin(Instant::now());
                }
                let incoming = reader.next().await?;
                match incoming {
                    Incoming::Message(body) => break body,
                    Incoming::Close => return Ok(()),
                    Incoming::Ping(payload) => self.outbox.pong(payload),
                    Incoming::Pong => {}
                }
                // Between the frames of a message its bytes stay counted, and its time runs on.
                if !reader.is_partial() {
                    drop(connection.complete(Instant::now()));
                }
            };
            let until = Instant::now() + engine::PATIENCE;
            let held = connection.complete(Instant::now());
            let (dispatch, caller) = (Arc::clone(&self.dispatch), Arc::clone(&self.caller));
            let (subscriptions, outbox) = (Arc::clone(&self.subscriptions), Arc::clone(&self.outbox));
            let is_order = has_order && is_ordered(&body);
            let arrived = Arrived { dispatch, caller, subscriptions, outbox, body, held, place };
            if is_order {
                let turn = line.join();
                // What has arrived is carried out also if the connection ends.
                tokio::spawn(async move {
                    arrived.answer_in_turn(turn, until).await;
                    drop(order);
                });
            } else {
                drop(order);
                running.spawn(arrived.answer());
            }
            while running.try_join_next().is_some() {}
        }
    }
}

/// Writes what waits, and pings, until the last message or an error of the socket. Short messages that wait together are written
/// together.
async fn send(io: impl AsyncWrite + Unpin, outbox: &Outbox) -> std::io::Result<()> {
    let mut io = BufWriter::new(io);
    let mut pings = tokio::time::interval(PING);
    pings.reset();
    loop {
        let message = match outbox.take() {
            Some(message) => message,
            None => {
                io.flush().await?;
                tokio::select! {
                    message = outbox.next() => message,
                    _ = pings.tick() => {
                        frames::write(&mut io, OpCode::Ping, &[]).await?;
                        continue;
                    }
                }
            }
        };
        match message {
            Message::Answer(answer, place) => {
                frames::write(&mut io, OpCode::Text, &[answer.as_ref()]).await?;
                drop(place);
            }
            Message::Event { name, json, _held } => {
                let head = format!(
                    "{{\"jsonrpc\":\"2.0\",\"method\":\"eth_subscription\",\"params\":{{\"subscription\":\"{name}\",\"result\":"
                );
                frames::write(&mut io, OpCode::Text, &[head.as_bytes(), json.as_bytes(), b"}}"]).await?;
            }
            Message::Pong(payload) => frames::write(&mut io, OpCode::Pong, &[&payload]).await?,
            Message::Close(code) => {
                frames::write(&mut io, OpCode::Close, &[&code.to_be_bytes()]).await?;
                io.shutdown().await?;
                tokio::time::sleep(GOODBYE).await;
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::{Account, Pool};
    use std::{
        pin::Pin,
        task::{Context, Poll},
    };

    /// Keeps what each write brings.
    #[derive(Debug, Default)]
    struct Writes(Vec<Vec<u8>>);

    impl AsyncWrite for &mut Writes {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
            self.0.push(bytes.to_vec());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn answers_that_wait_together_are_written_together() {
        let outbox = Outbox::new(&Account::new(&Pool::new(10_000), 0, usize::MAX), 1_000);
        let places = Arc::new(Semaphore::new(20));
        for _ in 0..20 {
            let place = Arc::clone(&places).try_acquire_owned().expect("room");
            outbox.answer(answer::error(RawValue::NULL, RpcError::server("no")), place);
        }
        let mut writes = Writes::default();
        let sending = tokio::time::timeout(Duration::from_millis(20), send(&mut writes, &outbox));
        assert!(sending.await.is_err(), "it waits for more");
        assert_eq!((writes.0.len(), places.available_permits()), (1, 20));
        let text = String::from_utf8_lossy(&writes.0[0]).into_owned();
        assert_eq!(text.matches("jsonrpc").count(), 20);
    }
}
