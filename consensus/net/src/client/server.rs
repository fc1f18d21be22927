//! Clients of a replica: a thread accepts them, one per client reads, one writes.

use super::message::{MOST_REQUEST, Request};
use crate::{
    queue::{Bell, Popped, Queue},
    wire::{Refusals, Refused, Seal, read_frame, write_frame},
};
use alloy_primitives::Bytes;
use alloy_rlp::Decodable as _;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    io::{BufReader, BufWriter, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Clients at a time, at most.
const MOST_CLIENTS: usize = 64;
/// Requests of all clients that wait to be checked, at most. Then clients are read no further.
const MOST_WAITING: usize = 1 << 14;
/// Length of the transactions that wait to be checked or to be submitted, in bytes.
const MOST_BYTES: usize = 64 << 20;
/// Length of the replies that wait for one client, in bytes.
const MOST_REPLIES: usize = 8 << 20;
/// Patience with a client that does not read.
const PATIENCE: Duration = Duration::from_secs(5);

/// Notices that wait for a client that follows the chain.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) queue: Arc<Queue<Bytes>>,
    /// Height of the next notice.
    pub(crate) next: u64,
}

/// Socket of a client and the replies that wait for it.
type Connection = (TcpStream, Arc<Queue<Bytes>>);

/// Requests of clients.
#[derive(Debug)]
pub(crate) struct Clients {
    /// Transactions as they came.
    pub(crate) raw: Queue<Bytes>,
    /// Transactions for the worker: checked, unless there is no batch thread.
    pub(crate) checked: Queue<Bytes>,
    /// Clients that have begun to follow, for the worker.
    pub(crate) follow: Mutex<Vec<Follower>>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) refused_txs: AtomicU64,
    refusals: Arc<Refusals>,
    stopped: AtomicBool,
    open: Mutex<BTreeMap<u64, Connection>>,
}

impl Clients {
    pub(crate) fn new(bell: Arc<Bell>, refusals: Arc<Refusals>) -> Self {
        let queue = || Queue::new(MOST_WAITING, MOST_BYTES);
        Self {
            raw: queue(),
            checked: queue(),
            follow: Mutex::default(),
            bell,
            refused_txs: AtomicU64::new(0),
            refusals,
            stopped: AtomicBool::new(false),
            open: Mutex::default(),
        }
    }

    /// Ends all threads: the accepting one needs a last connection.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Relaxed);
        self.raw.close();
        self.checked.close();
        for (stream, replies) in self.open.lock().values() {
            replies.close();
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Checks transactions until the clients are stopped: the work of a batch thread.
    pub(crate) fn check(&self, admit: &(dyn Fn(&[u8]) -> bool + Send + Sync)) {
        while let Popped::Item(tx) = self.raw.pop(None) {
            if !admit(&tx) {
                self.refused_txs.fetch_add(1, Relaxed);
            } else if self.checked.push_wait(tx.len(), tx) {
                self.bell.ring();
            }
        }
    }

    fn read(&self, stream: TcpStream, replies: &Arc<Queue<Bytes>>) -> Result<(), Refused> {
        let mut input = BufReader::with_capacity(1 << 16, stream);
        loop {
            let body = read_frame(&mut input, &mut Seal::None, MOST_REQUEST)?;
            let mut rest = body.as_slice();
            match Request::decode(&mut rest).map_err(Refused::Malformed)? {
                Request::Submit(txs) => {
                    if !txs.into_iter().all(|tx| self.raw.push_wait(tx.len(), tx)) {
                        return Ok(());
                    }
                    // Without batch threads the worker takes them.
                    self.bell.ring();
                }
                Request::Follow(from) => {
                    let mut follow = self.follow.lock();
                    // The newest request of a client counts; others would let a client fill the list.
                    follow.retain(|other| !Arc::ptr_eq(&other.queue, replies));
                    follow.push(Follower { queue: Arc::clone(replies), next: from.max(1) });
                    drop(follow);
                    self.bell.ring();
                }
            }
        }
    }

    fn write(&self, stream: TcpStream, replies: &Queue<Bytes>) -> Result<(), Refused> {
        let mut output = BufWriter::with_capacity(1 << 16, stream);
        while let Popped::Item(reply) = replies.pop(None) {
            write_frame(&mut output, &mut Seal::None, &reply)?;
            if replies.is_empty() {
                output.flush()?;
                // There may be more that had no room.
                self.bell.ring();
            }
        }
        Ok(())
    }

    fn end(&self, id: u64) {
        if let Some((stream, replies)) = self.open.lock().remove(&id) {
            replies.close();
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Starts the threads of a client.
    fn begin(self: &Arc<Self>, id: u64, stream: TcpStream) -> Result<(), Refused> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (reader, writer) = (stream.try_clone()?, stream.try_clone()?);
        let replies = Arc::new(Queue::new(usize::MAX, MOST_REPLIES));
        {
            let mut open = self.open.lock();
            if open.len() >= MOST_CLIENTS || self.stopped.load(Relaxed) {
                return Err(Refused::Full);
            }
            open.insert(id, (stream, Arc::clone(&replies)));
        }
        let spawned = [
            self.spawn("client-input", id, Arc::clone(&replies), move |clients, replies| clients.read(reader, replies)),
            self.spawn("client-output", id, replies, move |clients, replies| clients.write(writer, replies)),
        ];
        for result in spawned {
            if let Err(error) = result {
                self.end(id);
                return Err(Refused::Io(error));
            }
        }
        Ok(())
    }

    fn spawn(
        self: &Arc<Self>,
        name: &str,
        id: u64,
        replies: Arc<Queue<Bytes>>,
        act: impl FnOnce(&Self, &Arc<Queue<Bytes>>) -> Result<(), Refused> + Send + 'static,
    ) -> std::io::Result<()> {
        let clients = Arc::clone(self);
        let run = move || {
            if let Err(refused) = act(&clients, &replies) {
                clients.refusals.note(&refused);
            }
            clients.end(id);
        };
        thread::Builder::new().name(name.into()).spawn(run).map(drop)
    }
}

/// Accepts clients until they are stopped.
pub(crate) fn serve(listener: &TcpListener, clients: &Arc<Clients>) {
    for id in 0.. {
        let accepted = listener.accept();
        if clients.stopped.load(Relaxed) {
            return;
        }
        match accepted {
            Ok((stream, _)) => {
                if let Err(refused) = clients.begin(id, stream) {
                    clients.refusals.note(&refused);
                }
            }
            // No descriptors are left, or the connection is gone: others may come.
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}
