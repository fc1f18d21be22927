//! Output to one peer: a thread that dials, paces and writes what the worker queues.

use super::link::{LinkControl, Pacer};
use crate::{
    queue::{Popped, Queue},
    wire::{Identity, Refusals, Refused, Seal, Timed, dial, write_frame},
};
use alloy_primitives::Bytes;
use phalanx_bft::Index;
use std::{
    io::{BufWriter, Write as _},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

/// Frames that wait for a peer, at most: a second of the fastest replica. The oldest are dropped, and the protocol repeats them.
const MOST_FRAMES: usize = 1 << 14;
/// Length of the frames that wait for a peer, in bytes.
const MOST_BYTES: usize = 64 << 20;
/// Patience with a connection that is being opened, and with a peer that does not read.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause before a connection is tried again, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// A frame with the time at which the worker queued it.
pub(crate) type Queued = (Instant, Bytes);

/// State that the worker and the output thread share.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) queue: Queue<Queued>,
    pub(crate) link: LinkControl,
}

impl Output {
    pub(crate) const fn new(link: LinkControl) -> Self {
        Self { queue: Queue::new(MOST_FRAMES, MOST_BYTES), link }
    }

    /// Queues a frame.
    pub(crate) fn push(&self, body: Bytes) {
        self.queue.push_over(body.len(), (Instant::now(), body));
    }

    pub(crate) fn close(&self) {
        self.queue.close();
        self.link.close();
    }
}

/// A connection that is open.
struct Connection {
    stream: BufWriter<TcpStream>,
    seal: Seal,
}

impl Connection {
    fn open(address: SocketAddr, identity: &Identity, instance: &[u8; 32], peer: Index) -> Result<Self, Refused> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let seal = dial(&mut Timed::new(&stream, PATIENCE), identity, instance, peer)?;
        Ok(Self { stream: BufWriter::with_capacity(1 << 16, stream), seal })
    }

    fn write(&mut self, body: &[u8]) -> Result<(), Refused> {
        write_frame(&mut self.stream, &mut self.seal, body)
    }
}

/// Sends what is queued for `peer` until the output is closed.
pub(crate) fn send(
    output: &Arc<Output>,
    address: SocketAddr,
    identity: &Identity,
    instance: &[u8; 32],
    (peer, seed): (Index, u64),
    refusals: &Refusals,
) {
    let mut pacer = Pacer::new(seed);
    let mut connection: Option<Connection> = None;
    let mut pause = PAUSE.0;
    loop {
        // Nothing written may wait for a later frame, which may be lost or never come.
        if output.queue.is_empty() {
            flush(&mut connection);
        }
        let Popped::Item((since, body)) = output.queue.pop(None) else { return };
        let Some(link) = output.link.open() else { return };
        let Some(due) = pacer.due(&link, since, body.len()) else { continue };
        if due > Instant::now() {
            flush(&mut connection);
            if !output.link.sleep(due) {
                return;
            }
        }
        let open = match &mut connection {
            Some(open) => open,
            None => match Connection::open(address, identity, instance, peer) {
                Ok(opened) => {
                    pause = PAUSE.0;
                    connection.insert(opened)
                }
                Err(refused) => {
                    refusals.note(&refused);
                    // A peer that is away asks for what it misses when it is back; old frames would only delay the new ones.
                    output.queue.clear();
                    if !output.link.sleep(Instant::now() + pause) {
                        return;
                    }
                    pause = (pause * 2).min(PAUSE.1);
                    continue;
                }
            },
        };
        if open.write(&body).is_err() {
            connection = None;
        }
    }
}

/// Hands what is written to the system. A connection that fails is dropped.
fn flush(connection: &mut Option<Connection>) {
    if connection.as_mut().is_some_and(|open| open.stream.flush().is_err()) {
        *connection = None;
    }
}
