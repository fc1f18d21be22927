//! Clients of a replica: a thread accepts them, one per client reads, one writes.

use super::{
    awaited::Awaited,
    message::{MOST_REQUEST, Reply, Request},
};
use crate::{
    queue::{Bell, Popped, Queue},
    snapshot::Offers,
    wire::{ITEM, Refusals, Refused, Seal, read_frame, weigh, write_frame},
};
use alloy_primitives::Bytes;
use alloy_rlp::Decodable as _;
use parking_lot::Mutex;
use phalanx_host::Boundary;
use std::{
    collections::BTreeMap,
    io::{BufReader, BufWriter, Read, Write as _},
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
/// Items of a request, at most: decoded, they take no more memory than the longest request has bytes.
const MOST_PARTS: usize = MOST_REQUEST / ITEM;
/// Memory of the transactions that wait to be checked or to be submitted, in bytes.
const MOST_BYTES: usize = 64 << 20;
/// Transactions that are checked together, and their memory in bytes, at most.
const TOGETHER: (usize, usize) = (512, 2 << 20);
/// Length of the replies that wait for one client, in bytes.
const MOST_REPLIES: usize = 8 << 20;
/// Patience with a client that neither follows nor submits.
const IDLE: Duration = Duration::from_secs(60);
/// Patience with a client that does not read.
const PATIENCE: Duration = Duration::from_secs(5);

/// Notices that wait for a client that follows the chain.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) queue: Arc<Queue<Bytes>>,
    /// Height of the next notice.
    pub(crate) next: u64,
}

impl Follower {
    /// Adds followers, of which each takes the place of an older one of the same client, and drops what has ended.
    pub(crate) fn merge(followers: &mut Vec<Self>, new: &mut Vec<Self>) {
        followers.retain(|old| !old.queue.is_closed() && !new.iter().any(|new| Arc::ptr_eq(&new.queue, &old.queue)));
        followers.append(new);
    }
}

/// A connection with a client.
#[derive(Debug)]
struct Open {
    stream: TcpStream,
    replies: Arc<Queue<Bytes>>,
    /// True once a whole request has come.
    asked: bool,
}

impl Open {
    fn close(&self) {
        self.replies.close();
        // A connection that is closed already is as good.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Requests of clients.
#[derive(Debug)]
pub(crate) struct Clients {
    /// Transactions as they came.
    pub(crate) raw: Queue<Bytes>,
    /// Transactions for the worker: checked, unless there is no batch thread.
    pub(crate) checked: Queue<Bytes>,
    /// Clients that have begun to follow, for the worker.
    pub(crate) follow: Mutex<Vec<Follower>>,
    /// Transactions whose acknowledgements clients wait for.
    pub(crate) awaited: Awaited,
    /// Snapshots that others may fetch.
    pub(crate) offers: Offers,
    /// Blocks that epochs begin above, by epoch.
    pub(crate) boundaries: Mutex<BTreeMap<u64, Boundary>>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) refused_txs: AtomicU64,
    refusals: Arc<Refusals>,
    stopped: AtomicBool,
    open: Mutex<BTreeMap<u64, Open>>,
}

impl Clients {
    pub(crate) fn new(bell: Arc<Bell>, refusals: Arc<Refusals>, offers: Offers) -> Self {
        let queue = || Queue::new(MOST_WAITING, MOST_BYTES);
        Self {
            raw: queue(),
            checked: queue(),
            follow: Mutex::default(),
            awaited: Awaited::default(),
            offers,
            boundaries: Mutex::default(),
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
        self.offers.close();
        self.open.lock().values().for_each(Open::close);
    }

    /// Checks transactions until the clients are stopped, and keeps those that `admit` returns true for: the work of a batch thread. Those
    /// that have come together are checked together.
    pub(crate) fn check(&self, admit: impl Fn(&[Bytes]) -> Vec<bool>) {
        loop {
            let txs = self.raw.pop_together(TOGETHER);
            if txs.is_empty() {
                return;
            }
            let admitted = admit(&txs);
            for (tx, _) in txs.into_iter().zip(admitted).filter(|(_, admitted)| *admitted) {
                if self.checked.push_wait(tx.len() + ITEM, tx) {
                    self.bell.ring();
                }
            }
        }
    }

    fn read(&self, id: u64, stream: impl Read, replies: &Arc<Queue<Bytes>>) -> Result<(), Refused> {
        let mut input = BufReader::with_capacity(1 << 16, stream);
        loop {
            let body = read_frame(&mut input, &mut Seal::None, MOST_REQUEST)?;
            weigh(&body, MOST_PARTS)?;
            let mut rest = body.as_slice();
            let request = Request::decode(&mut rest).map_err(Refused::Malformed)?;
            if !rest.is_empty() {
                return Err(Refused::Malformed(alloy_rlp::Error::UnexpectedLength));
            }
            if let Some(open) = self.open.lock().get_mut(&id) {
                open.asked = true;
                if matches!(request, Request::Follow(_) | Request::Await(_)) {
                    // From now on it is expected to read.
                    open.stream.set_read_timeout(None)?;
                }
            }
            match request {
                Request::Submit(txs) => {
                    if !txs.into_iter().all(|tx| self.raw.push_wait(tx.len() + ITEM, tx)) {
                        return Ok(());
                    }
                    // Without batch threads the worker takes them.
                    self.bell.ring();
                }
                Request::Await(txs) => self.awaited.add(replies, txs),
                Request::Snapshots => {
                    let reply = Bytes::from(alloy_rlp::encode(Reply::Snapshots(self.offers.all())));
                    if !replies.push_wait(reply.len(), reply) {
                        return Ok(());
                    }
                }
                Request::Chunk(height, number) => {
                    let reply = self.offers.reply(id, (height, number), |chunk| alloy_rlp::encode(Reply::Chunk(chunk)));
                    // It waits for all that is before it: a chunk is as long as the whole queue.
                    if !replies.push_wait(MOST_REPLIES, reply) {
                        return Ok(());
                    }
                }
                Request::Epoch(epoch) => {
                    let found = self.boundaries.lock().get(&epoch).cloned();
                    let reply = Bytes::from(alloy_rlp::encode(Reply::Epoch(found.into_iter().collect())));
                    if !replies.push_wait(reply.len(), reply) {
                        return Ok(());
                    }
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
            // A chunk gives its place back before its client asks for the next one.
            drop(reply);
            if replies.is_empty() {
                output.flush()?;
                // There may be more that had no room.
                self.bell.ring();
            }
        }
        Ok(())
    }

    fn end(&self, id: u64) {
        if let Some(open) = self.open.lock().remove(&id) {
            open.close();
        }
    }

    /// Starts the threads of a client.
    fn begin(self: &Arc<Self>, id: u64, stream: TcpStream) -> Result<(), Refused> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(IDLE))?;
        let (reader, writer) = (stream.try_clone()?, stream.try_clone()?);
        let replies = Arc::new(Queue::new(usize::MAX, MOST_REPLIES));
        {
            let mut open = self.open.lock();
            if self.stopped.load(Relaxed) {
                return Err(Refused::Full);
            }
            if open.len() >= MOST_CLIENTS {
                // The oldest client that has not asked for anything leaves for the next. The thread of one that has may wait for
                // room, so that its place is not free before it ends.
                let idle = open.iter().find(|(_, client)| !client.asked).map(|(id, _)| *id);
                let Some(idle) = idle.and_then(|id| open.remove(&id)) else { return Err(Refused::Full) };
                idle.close();
                self.refusals.note(&Refused::Full);
            }
            let replies = Arc::clone(&replies);
            open.insert(id, Open { stream, replies, asked: false });
        }
        let spawned = [
            self.spawn("client-input", id, Arc::clone(&replies), move |clients, replies| {
                clients.read(id, reader, replies)
            }),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(requests: &[Request]) -> Vec<u8> {
        let mut wire = Vec::new();
        for request in requests {
            write_frame(&mut wire, &mut Seal::None, &alloy_rlp::encode(request)).expect("memory");
        }
        wire
    }

    /// A client that asks to follow again and again takes one place, also with a worker that looks in between.
    #[test]
    fn a_client_follows_once_however_often_it_asks() {
        let clients = Clients::new(Arc::default(), Arc::default(), Offers::default());
        let replies = [Arc::new(Queue::new(usize::MAX, MOST_REPLIES)), Arc::new(Queue::new(usize::MAX, MOST_REPLIES))];
        let mut followers = Vec::new();
        for round in 1..=1_000_u64 {
            let wire = requests(&(0..100).map(|at| Request::Follow(round + at)).collect::<Vec<_>>());
            for replies in &replies {
                // The wire ends behind the last frame.
                let ended = clients.read(0, wire.as_slice(), replies);
                assert!(matches!(ended, Err(Refused::Io(_))), "{ended:?}");
            }
            Follower::merge(&mut followers, &mut clients.follow.lock());
            assert_eq!(followers.len(), 2, "round {round}");
        }
        assert!(followers.iter().all(|follower| follower.next == 1_099), "the newest request counts");
        replies[0].close();
        Follower::merge(&mut followers, &mut Vec::new());
        assert_eq!(followers.len(), 1);
    }

    #[test]
    fn what_has_come_together_is_checked_together_and_keeps_its_order() {
        let clients = Arc::new(Clients::new(Arc::default(), Arc::default(), Offers::default()));
        let replies = Arc::new(Queue::new(usize::MAX, MOST_REPLIES));
        let txs: Vec<Bytes> = (0..1_000_u32).map(|number| number.to_be_bytes().to_vec().into()).collect();
        let ended = clients.read(0, requests(&[Request::Submit(txs.clone())]).as_slice(), &replies);
        assert!(matches!(ended, Err(Refused::Io(_))), "{ended:?}");
        clients.raw.close();
        let calls = Mutex::new(Vec::new());
        clients.check(|txs| {
            calls.lock().push(txs.len());
            txs.iter().map(|tx| tx[3] % 3 != 0).collect()
        });
        assert_eq!(calls.into_inner(), [TOGETHER.0, 1_000 - TOGETHER.0]);
        let kept: Vec<Bytes> = core::iter::from_fn(|| clients.checked.try_pop()).collect();
        assert_eq!(kept, txs.into_iter().filter(|tx| tx[3] % 3 != 0).collect::<Vec<_>>());
    }

    #[test]
    fn a_flood_of_empty_transactions_is_refused_before_it_is_decoded() {
        let clients = Clients::new(Arc::default(), Arc::default(), Offers::default());
        let replies = Arc::new(Queue::new(usize::MAX, MOST_REPLIES));
        let flood = requests(&[Request::Submit(vec![Bytes::new(); 4_000_000])]);
        let ended = clients.read(0, flood.as_slice(), &replies);
        assert!(matches!(ended, Err(Refused::Malformed(_))) && clients.raw.is_empty(), "{ended:?}");
        let longer = [alloy_rlp::encode(Request::Follow(1)), vec![0]].concat();
        let mut wire = Vec::new();
        write_frame(&mut wire, &mut Seal::None, &longer).expect("memory");
        assert!(matches!(clients.read(0, wire.as_slice(), &replies), Err(Refused::Malformed(_))));
    }
}
