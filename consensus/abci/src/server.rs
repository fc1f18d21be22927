//! Threads and sockets: a thread per connection, which reads a request, has it answered, and writes the answer.

use crate::{
    app::{App, NEW},
    error::CallError,
    frame,
    host::Host,
    mempool::MempoolRequest,
    proto::{self, Request, Response, request::Value as Asked, response::Value},
};
use parking_lot::Mutex;
use prost::bytes;
use std::{
    collections::HashMap,
    io::{self, BufRead as _, BufReader, BufWriter, ErrorKind, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

/// Maximum number of connections. CometBFT has four, and those of a CometBFT that was killed may not have ended yet.
const CONNECTIONS: usize = 16;

/// Number of bytes that are read ahead of a connection: some hundred transactions.
const AHEAD: usize = 64 << 10;

/// Maximum number of transactions that are admitted together.
const TOGETHER: usize = 1_024;

/// Interval at which new connections are looked for.
const INTERVAL: Duration = Duration::from_millis(10);

/// A running server. [`Self::stop`] ends it; dropping it does the same.
#[derive(Debug)]
pub struct Server<H: Host> {
    address: SocketAddr,
    shared: Arc<Shared<H>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<H: Host> {
    app: App<H>,
    stopping: AtomicBool,
    open: Mutex<HashMap<u64, TcpStream>>,
}

impl<H: Host> Server<H> {
    /// Listens on an address; port 0 takes a free one. The protocol has no passwords: the address should be a loopback one.
    ///
    /// # Errors
    /// The address cannot be listened on, or no thread be started.
    pub fn start(address: SocketAddr, app: App<H>) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared { app, stopping: AtomicBool::new(false), open: Mutex::default() });
        let accepting = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("phalanx-abci".into()).spawn(move || accept(&listener, &accepting))?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Address that the server listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections, and the calls that wait in them.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.shared.app.stop();
        if let Some(thread) = self.thread.take() {
            // Its panic was printed.
            let _ = thread.join();
        }
    }
}

impl<H: Host> Drop for Server<H> {
    fn drop(&mut self) {
        self.end();
    }
}

fn accept<H: Host>(listener: &TcpListener, shared: &Arc<Shared<H>>) {
    let (mut threads, mut number) = (Vec::<JoinHandle<()>>::new(), 0);
    while !shared.stopping.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, peer)) => {
                threads.retain(|thread| !thread.is_finished());
                number += 1;
                match open(stream, number, shared) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => tracing::warn!(%error, %peer, "a connection is refused"),
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(INTERVAL),
            Err(error) => {
                tracing::warn!(%error, "a connection is not accepted");
                std::thread::sleep(INTERVAL);
            }
        }
    }
    for (_, stream) in shared.open.lock().drain() {
        // It has ended already, or ends now.
        let _ = stream.shutdown(Shutdown::Both);
    }
    for thread in threads {
        let _ = thread.join();
    }
}

fn open<H: Host>(stream: TcpStream, number: u64, shared: &Arc<Shared<H>>) -> io::Result<JoinHandle<()>> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let mut open = shared.open.lock();
    if open.len() >= CONNECTIONS {
        return Err(io::Error::other(format!("{CONNECTIONS} connections are open")));
    }
    open.insert(number, stream.try_clone()?);
    drop(open);
    let connection = Connection { stream, number, shared: Arc::clone(shared) };
    std::thread::Builder::new().name(format!("phalanx-abci-{number}")).spawn(move || {
        match serve(&connection.stream, &connection.shared.app) {
            Ok(()) => tracing::debug!(number, "a connection has ended"),
            Err(error) => tracing::warn!(%error, number, "a connection has failed"),
        }
    })
}

/// An open connection. Its end is told to the other side, also if its thread panics.
struct Connection<H: Host> {
    stream: TcpStream,
    number: u64,
    shared: Arc<Shared<H>>,
}

impl<H: Host> Drop for Connection<H> {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        self.shared.open.lock().remove(&self.number);
    }
}

/// A message of CometBFT.
enum Message {
    /// An offer of a transaction.
    Offer(Way, bytes::Bytes),
    Mempool(MempoolRequest),
    Call(Request),
}

/// Call that offers a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// CheckTx of a new transaction.
    Check,
    /// InsertTx.
    Insert,
}

impl Message {
    fn read(bytes: &[u8]) -> io::Result<Self> {
        let request: Request = frame::decode(bytes)?;
        Ok(match request.value {
            Some(Asked::CheckTx(check)) if check.r#type == NEW => Self::Offer(Way::Check, check.tx),
            None => match MempoolRequest::read(bytes) {
                Some(MempoolRequest { insert_tx: Some(insert), reap_txs: None }) => Self::Offer(Way::Insert, insert.tx),
                Some(asked) => Self::Mempool(asked),
                None => Self::Call(request),
            },
            _ => Self::Call(request),
        })
    }
}

/// Answers requests until the stream ends, or a call has no answer. Transactions that have arrived together are admitted together.
fn serve<H: Host>(stream: &TcpStream, app: &App<H>) -> io::Result<()> {
    let (mut reader, mut writer) = (BufReader::with_capacity(AHEAD, stream), BufWriter::new(stream));
    let mut next = None;
    loop {
        let message = match next.take() {
            Some(message) => message,
            None => match frame::read_bytes(&mut reader)? {
                Some(bytes) => Message::read(&bytes)?,
                None => return Ok(()),
            },
        };
        let mut is_flush = false;
        let answers = match message {
            Message::Offer(way, tx) => {
                let txs;
                (txs, next) = together(&mut reader, way, tx)?;
                match way {
                    Way::Check => app.check(txs),
                    Way::Insert => {
                        for answer in app.insert(txs).map_err(io::Error::other)? {
                            frame::write(&mut writer, &answer)?;
                        }
                        Ok(Vec::new())
                    }
                }
            }
            Message::Mempool(asked) => {
                frame::write(&mut writer, &app.mempool(asked).map_err(io::Error::other)?)?;
                Ok(Vec::new())
            }
            Message::Call(request) => {
                is_flush = matches!(request.value, Some(Asked::Flush(_)));
                if !is_harmless(&request) && is_gone(stream, &mut reader) {
                    tracing::warn!("a call about a block is left out: the connection has ended since");
                    return Ok(());
                }
                app.call(request).map(|answer| vec![answer])
            }
        };
        match answers {
            Ok(answers) => answers.iter().try_for_each(|answer| frame::write(&mut writer, answer))?,
            Err(error @ (CallError::Halted(_) | CallError::Stopping)) => {
                // No answer: a wrong one could be saved.
                writer.flush()?;
                return Err(io::Error::other(error));
            }
            Err(error) => {
                tracing::error!(%error, "a call is refused");
                let exception = proto::ResponseException { error: error.to_string() };
                frame::write(&mut writer, &Response { value: Some(Value::Exception(exception)) })?;
                return writer.flush();
            }
        }
        if is_flush || next.is_none() && reader.buffer().is_empty() {
            writer.flush()?;
        }
    }
}

/// The first of some transactions and those that have arrived behind it on the same way; and the message behind them, if it has.
fn together(
    reader: &mut BufReader<&TcpStream>,
    way: Way,
    first: bytes::Bytes,
) -> io::Result<(Vec<bytes::Bytes>, Option<Message>)> {
    let mut txs = vec![first];
    while txs.len() < TOGETHER
        && let Some(bytes) = frame::read_arrived(reader)?
    {
        match Message::read(&bytes)? {
            Message::Offer(same, tx) if same == way => txs.push(tx),
            other => return Ok((txs, Some(other))),
        }
    }
    Ok((txs, None))
}

/// True for calls that change nothing but the pool.
const fn is_harmless(request: &Request) -> bool {
    matches!(request.value, Some(Asked::Echo(_) | Asked::Flush(_) | Asked::CheckTx(_) | Asked::Query(_)))
}

/// True if the other side has ended the connection: a CometBFT that was killed. Its last call must not run beside the
/// handshake of the next one, which has asked for the height already.
fn is_gone(stream: &TcpStream, reader: &mut BufReader<&TcpStream>) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    // CometBFT sends a Flush behind a call: while it is unread, it hides the end. An error shows in the peek as well.
    let _ = reader.fill_buf();
    let peeked = stream.peek(&mut [0]);
    let is_open = stream.set_nonblocking(false).is_ok();
    !is_open || !matches!(peeked, Ok(1..)) && !matches!(&peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_other_side_is_seen_before_a_call_and_behind_a_flush() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        for is_read in [false, true] {
            let caller = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
            let (stream, _) = listener.accept().expect("a connection");
            let mut reader = BufReader::new(&stream);
            assert!(!is_gone(&stream, &mut reader));
            (&caller).write_all(&[1, 2]).expect("sent");
            if is_read {
                // The second byte, as a Flush, comes with the first one.
                io::Read::read_exact(&mut reader, &mut [0]).expect("a byte");
                assert_eq!(reader.buffer(), [2]);
            }
            assert!(!is_gone(&stream, &mut reader), "a caller that sends ahead");
            drop(caller);
            // Waits for the end, or takes what hides it.
            assert!(stream.peek(&mut [0]).is_ok());
            assert!(is_gone(&stream, &mut reader));
            assert!(!reader.buffer().is_empty(), "what was sent is not lost");
        }
    }
}
