//! Input from peers: a thread accepts connections, and one per peer reads, checks and decodes frames.

use crate::{
    queue::{Bell, Queue},
    wire::{Identity, Refusals, Refused, Seal, accept, read_frame},
};
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
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Frames of one peer that wait for the worker, at most. Then its connection is read no further.
const MOST_FRAMES: usize = 4_096;
/// Length of the frames of one peer that wait for the worker, in bytes.
const MOST_BYTES: usize = 64 << 20;
/// Connections whose greeting is not complete, at most: others have to wait outside.
const MOST_GREETING: usize = 64;
/// Patience with a greeting.
const PATIENCE: Duration = Duration::from_secs(2);

/// Frames from peers, and the connections that they come on.
#[derive(Debug)]
pub(crate) struct Inputs<M> {
    pub(crate) queues: Vec<Queue<Frame<M>>>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) refusals: Arc<Refusals>,
    stopped: AtomicBool,
    greeting: AtomicUsize,
    /// Number of connections that were let in.
    entered: AtomicU64,
    /// The newest connection of each peer, with its number.
    open: Mutex<BTreeMap<Index, (u64, TcpStream)>>,
}

impl<M: Message + Send + 'static> Inputs<M> {
    pub(crate) fn new(n: usize, bell: Arc<Bell>, refusals: Arc<Refusals>) -> Self {
        let queues = (0..n).map(|_| Queue::new(MOST_FRAMES, MOST_BYTES)).collect();
        let (stopped, greeting, entered) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicU64::new(0));
        Self { queues, bell, refusals, stopped, greeting, entered, open: Mutex::default() }
    }

    /// Ends all threads: the accepting one needs a last connection.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Relaxed);
        self.queues.iter().for_each(Queue::close);
        for (_, stream) in self.open.lock().values() {
            // A connection that is closed already is as good.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Makes the connection the peer's only one, and returns its number. `None` if the replica has stopped.
    fn enter(&self, peer: Index, stream: &TcpStream) -> Option<u64> {
        let stream = stream.try_clone().ok()?;
        let number = self.entered.fetch_add(1, Relaxed);
        if let Some((_, before)) = self.open.lock().insert(peer, (number, stream)) {
            let _ = before.shutdown(Shutdown::Both);
        }
        (!self.stopped.load(Relaxed)).then_some(number)
    }

    /// Closes a connection for both ends, so that the peer dials again.
    fn leave(&self, peer: Index, number: u64) {
        let mut open = self.open.lock();
        if open.get(&peer).is_some_and(|(newest, _)| *newest == number)
            && let Some((_, stream)) = open.remove(&peer)
        {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn greet(
        &self,
        stream: &mut TcpStream,
        identity: &Identity,
        instance: &[u8; 32],
    ) -> Result<(Index, Seal), Refused> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let greeted = accept(stream, identity, instance)?;
        stream.set_read_timeout(None)?;
        Ok(greeted)
    }

    /// Reads frames until the connection ends or one is refused.
    fn read(&self, peer: Index, stream: TcpStream, mut seal: Seal, most: usize) -> Result<(), Refused> {
        let Some(queue) = self.queues.get(usize::from(peer.0)) else { return Ok(()) };
        let mut input = BufReader::with_capacity(1 << 16, stream);
        loop {
            let body = read_frame(&mut input, &mut seal, most)?;
            let mut rest = body.as_slice();
            let frame = Frame::<M>::decode(&mut rest).map_err(Refused::Malformed)?;
            if !rest.is_empty() {
                return Err(Refused::Malformed(alloy_rlp::Error::UnexpectedLength));
            }
            if !queue.push_wait(body.len(), frame) {
                return Ok(());
            }
            self.bell.ring();
        }
    }
}

/// Accepts connections until the inputs are stopped.
pub(crate) fn listen<M: Message + Send + 'static>(
    listener: &TcpListener,
    inputs: &Arc<Inputs<M>>,
    identity: &Identity,
    instance: [u8; 32],
    most: usize,
) {
    loop {
        let accepted = listener.accept();
        if inputs.stopped.load(Relaxed) {
            return;
        }
        let Ok((mut stream, _)) = accepted else {
            // No descriptors are left, or the connection is gone: others may come.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        if inputs.greeting.fetch_add(1, Relaxed) >= MOST_GREETING {
            inputs.greeting.fetch_sub(1, Relaxed);
            inputs.refusals.note(&Refused::Full);
            continue;
        }
        let (shared, identity) = (Arc::clone(inputs), identity.clone());
        let read = move || {
            let greeted = shared.greet(&mut stream, &identity, &instance);
            shared.greeting.fetch_sub(1, Relaxed);
            let ended = greeted.and_then(|(peer, seal)| {
                let Some(number) = shared.enter(peer, &stream) else { return Ok(()) };
                let read = shared.read(peer, stream, seal, most);
                shared.leave(peer, number);
                read
            });
            if let Err(refused) = ended {
                shared.refusals.note(&refused);
            }
        };
        if thread::Builder::new().name("replica-input".into()).spawn(read).is_err() {
            inputs.greeting.fetch_sub(1, Relaxed);
        }
    }
}
