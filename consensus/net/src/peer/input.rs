//! Input from peers: a thread accepts connections, and one per peer reads, checks and decodes frames.

use crate::{
    queue::{Bell, Queue},
    wire::{Identity, Refusals, Refused, Seal, Timed, accept, has_frame, read_frame, weigh},
};
use alloy_primitives::Bytes;
use alloy_rlp::Decodable as _;
use parking_lot::Mutex;
use phalanx_bft::{Index, Message};
use phalanx_host::Frame;
use std::{
    collections::BTreeMap,
    io::BufReader,
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Items of a proposal that another frame with the same batch has beside it, at most.
const SPARE_ITEMS: usize = 1 << 10;
/// Frames of one peer that wait for the worker, at most. Then its connection is read no further.
const MOST_FRAMES: usize = 4_096;
/// Length of the frames of one peer that wait for the worker, in bytes.
const MOST_BYTES: usize = 64 << 20;
/// Connections whose greeting is not complete, at most: the oldest has to leave for the next.
const MOST_GREETING: usize = 64;
/// Patience with a greeting as a whole.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time for which a replica that signed a wrong frame is not admitted, after its first one. It doubles with each.
const SHUT_OUT: Duration = Duration::from_secs(1);
/// Doublings, at most.
const MOST_DOUBLINGS: u32 = 10;

/// Returns true for each transaction that may be submitted, of those that have come together.
pub(crate) type Check = Arc<dyn Fn(&[Bytes]) -> Vec<bool> + Send + Sync>;

/// Maximum length of a frame, in bytes, and maximum number of its items.
pub(crate) type Most = (usize, usize);

/// Frames from peers, and the connections that they come on.
pub(crate) struct Inputs<M> {
    pub(crate) queues: Vec<Queue<Frame<M>>>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) refusals: Arc<Refusals>,
    stopped: AtomicBool,
    /// Connections whose greeting is not complete, by age.
    greeting: Mutex<BTreeMap<u64, TcpStream>>,
    /// Check of transactions that a peer forwards.
    admit: Check,
    /// The newest connection of each peer, with its number as a writer of the peer's queue.
    open: Mutex<BTreeMap<Index, (u64, TcpStream)>>,
    /// Replicas that signed wrong frames: how many, and the time until which they are not admitted.
    forgers: Mutex<BTreeMap<Index, (u32, Instant)>>,
}

impl<M> core::fmt::Debug for Inputs<M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Inputs").field("open", &self.open.lock().len()).finish_non_exhaustive()
    }
}

impl<M: Message + Send + 'static> Inputs<M> {
    pub(crate) fn new(n: usize, bell: Arc<Bell>, refusals: Arc<Refusals>, admit: Check) -> Self {
        let queues = (0..n).map(|_| Queue::new(MOST_FRAMES, MOST_BYTES)).collect();
        let (stopped, greeting, open) = (AtomicBool::new(false), Mutex::default(), Mutex::default());
        Self { queues, bell, refusals, stopped, greeting, admit, open, forgers: Mutex::default() }
    }

    /// Closes the connection of a replica that signed a wrong frame, drops what it has sent, and admits none for a while: each of
    /// its frames costs a verification.
    pub(crate) fn shut_out(&self, peer: Index) {
        {
            let mut forgers = self.forgers.lock();
            let (frames, until) = forgers.entry(peer).or_insert((0, Instant::now()));
            *until = Instant::now() + SHUT_OUT * (1 << (*frames).min(MOST_DOUBLINGS));
            *frames += 1;
        }
        self.refusals.note(&Refused::Forged);
        let Some(queue) = self.queues.get(usize::from(peer.0)) else { return };
        // The thread of the connection may wait for room: it writes no more.
        queue.take_over();
        queue.clear();
        if let Some((_, stream)) = self.open.lock().remove(&peer) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Replicas that signed wrong frames.
    pub(crate) fn forgers(&self) -> Vec<u16> {
        self.forgers.lock().keys().map(|peer| peer.0).collect()
    }

    /// Ends all threads: the accepting one needs a last connection.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Relaxed);
        self.queues.iter().for_each(Queue::close);
        // Connections that are closed already are as good.
        self.open.lock().values().for_each(|(_, stream)| drop(stream.shutdown(Shutdown::Both)));
        self.greeting.lock().values().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    /// Makes the connection the peer's only one, and returns its number as a writer of the peer's queue. `None` if the replica has
    /// stopped, or the peer is shut out.
    fn enter(&self, peer: Index, stream: &TcpStream) -> Option<u64> {
        let stream = stream.try_clone().ok()?;
        if self.forgers.lock().get(&peer).is_some_and(|(_, until)| Instant::now() < *until) {
            let _ = stream.shutdown(Shutdown::Both);
            return None;
        }
        let mut open = self.open.lock();
        // The thread of the connection before may read, or wait for room in the queue: both end.
        let writer = self.queues.get(usize::from(peer.0))?.take_over();
        if let Some((_, before)) = open.insert(peer, (writer, stream)) {
            let _ = before.shutdown(Shutdown::Both);
        }
        (!self.stopped.load(Relaxed)).then_some(writer)
    }

    /// Closes a connection for both ends, so that the peer dials again.
    fn leave(&self, peer: Index, writer: u64) {
        let mut open = self.open.lock();
        if open.get(&peer).is_some_and(|(newest, _)| *newest == writer)
            && let Some((_, stream)) = open.remove(&peer)
        {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Admits a connection to greet, and lets the oldest one go if there are too many.
    fn begin(&self, id: u64, stream: &TcpStream) -> Result<(), Refused> {
        let stream = stream.try_clone()?;
        let mut greeting = self.greeting.lock();
        greeting.insert(id, stream);
        if greeting.len() > MOST_GREETING
            && let Some((_, oldest)) = greeting.pop_first()
        {
            let _ = oldest.shutdown(Shutdown::Both);
            self.refusals.note(&Refused::Full);
        }
        Ok(())
    }

    fn greet(&self, stream: &TcpStream, identity: &Identity, instance: &[u8; 32]) -> Result<(Index, Seal), Refused> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let greeted = accept(&mut Timed::new(stream, PATIENCE), identity, instance)?;
        stream.set_read_timeout(None)?;
        Ok(greeted)
    }

    /// Reads frames until the connection ends or one is refused.
    fn read(&self, (peer, writer): (Index, u64), stream: TcpStream, mut seal: Seal, most: Most) -> Result<(), Refused> {
        let Some(queue) = self.queues.get(usize::from(peer.0)) else { return Ok(()) };
        let mut input = BufReader::with_capacity(1 << 16, stream);
        let mut requests: Vec<(usize, Bytes)> = Vec::new();
        loop {
            let next = match next_frame::<M>(&mut input, &mut seal, most) {
                Ok((weight, Frame::Request(tx))) => {
                    requests.push((weight, tx));
                    // What has arrived behind it is read first, so that requests are checked together: no more than the buffer holds.
                    if has_frame(input.buffer()) {
                        continue;
                    }
                    Ok(None)
                }
                Ok(other) => Ok(Some(other)),
                // The requests before it came whole.
                Err(refused) => Err(refused),
            };
            let admitted = self.checked(core::mem::take(&mut requests));
            let (other, end) = next.map_or_else(|refused| (None, Some(refused)), |other| (other, None));
            for (weight, frame) in admitted.into_iter().chain(other) {
                if !queue.push_of(writer, weight, frame) {
                    return end.map_or(Ok(()), Err);
                }
                self.bell.ring();
            }
            if let Some(refused) = end {
                return Err(refused);
            }
        }
    }

    /// The frames of those requests that may be submitted.
    fn checked(&self, requests: Vec<(usize, Bytes)>) -> Vec<(usize, Frame<M>)> {
        if requests.is_empty() {
            return Vec::new();
        }
        let (weights, txs): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
        let admitted = (self.admit)(&txs);
        let admitted = weights.into_iter().zip(txs).zip(admitted).filter(|(_, admitted)| *admitted);
        admitted.map(|((weight, tx), _)| (weight, Frame::Request(tx))).collect()
    }
}

/// Reads a frame, with its weight in a queue.
fn next_frame<M: Message>(
    input: &mut BufReader<TcpStream>,
    seal: &mut Seal,
    (most_bytes, most_items): Most,
) -> Result<(usize, Frame<M>), Refused> {
    let body = read_frame(input, seal, most_bytes)?;
    // What a proposal may have, an answer with that batch has room for.
    let proposed = body.first() == Some(&Frame::<M>::PROTOCOL);
    let weight = weigh(&body, most_items - if proposed { SPARE_ITEMS } else { 0 })?;
    let mut rest = body.as_slice();
    let frame = Frame::<M>::decode(&mut rest).map_err(Refused::Malformed)?;
    if rest.is_empty() { Ok((weight, frame)) } else { Err(Refused::Malformed(alloy_rlp::Error::UnexpectedLength)) }
}

/// Accepts connections until the inputs are stopped.
pub(crate) fn listen<M: Message + Send + 'static>(
    listener: &TcpListener,
    inputs: &Arc<Inputs<M>>,
    identity: &Identity,
    instance: [u8; 32],
    most: Most,
) {
    for id in 0.. {
        let accepted = listener.accept();
        if inputs.stopped.load(Relaxed) {
            return;
        }
        let Ok((stream, _)) = accepted else {
            // No descriptors are left, or the connection is gone: others may come.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        if inputs.begin(id, &stream).is_err() {
            continue;
        }
        let (shared, identity) = (Arc::clone(inputs), identity.clone());
        let read = move || {
            let greeted = shared.greet(&stream, &identity, &instance);
            shared.greeting.lock().remove(&id);
            let ended = greeted.and_then(|(peer, seal)| {
                let Some(writer) = shared.enter(peer, &stream) else { return Ok(()) };
                let read = shared.read((peer, writer), stream, seal, most);
                shared.leave(peer, writer);
                read
            });
            if let Err(refused) = ended {
                shared.refusals.note(&refused);
            }
        };
        if thread::Builder::new().name("replica-input".into()).spawn(read).is_err() {
            inputs.greeting.lock().remove(&id);
        }
    }
}
