//! Sockets before anything is read from them: at most so many, and a line in the log when there are too many.

use parking_lot::Mutex;
use std::{
    io::{self, Write as _},
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// Memory of the kernel for what a peer has not read yet, and for what is not read of a peer, in bytes. Without it a socket may
/// take megabytes of each.
const KERNEL_BUFFER: u32 = 256 << 10;

/// Number of connections that the kernel holds until they are accepted.
const BACKLOG: u32 = 1_024;

/// Interval between two lines of the log about the same.
const QUIET: Duration = Duration::from_secs(10);

/// Wait behind a failed accept: the process is out of files, most likely.
const PAUSE: Duration = Duration::from_millis(100);

/// Answer to a connection without a place. It is short, so that the kernel takes it at once.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 40\r\n\
    Retry-After: 1\r\nConnection: close\r\n\r\nThe node has no place for a connection.\n";

/// A listening socket with a bounded number of connections.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    max: usize,
    refused: Mutex<Often>,
    failed: Mutex<Often>,
}

/// A connection and its place, which it holds until it is dropped.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) stream: TcpStream,
    pub(crate) place: OwnedSemaphorePermit,
}

impl Listener {
    /// Listens with at most `max` connections, and with fewer where the process may open fewer files than twice that.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub(crate) fn bind(address: SocketAddr, max: usize) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.set_send_buffer_size(KERNEL_BUFFER)?;
        socket.set_recv_buffer_size(KERNEL_BUFFER)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let max = within(max, rustix::process::getrlimit(rustix::process::Resource::Nofile).current);
        let places = Arc::new(Semaphore::new(max));
        Ok(Self { listener, places, max, refused: Mutex::default(), failed: Mutex::default() })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The places of connections: all are free once the last connection has ended.
    pub(crate) fn places(&self) -> (Arc<Semaphore>, usize) {
        (Arc::clone(&self.places), self.max)
    }

    /// The next connection that has a place; `None` if one was refused. Cancelling loses no connection.
    pub(crate) async fn accept(&self) -> Option<Accepted> {
        let stream = match self.listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                if let Some(times) = self.failed.lock().count(Instant::now()) {
                    tracing::warn!(%error, times, "connections of JSON-RPC are not accepted");
                }
                tokio::time::sleep(PAUSE).await;
                return None;
            }
        };
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            if let Some(times) = self.refused.lock().count(Instant::now()) {
                tracing::warn!(max = self.max, times, "connections of JSON-RPC are refused: all places are taken");
            }
            // A client that does not take these bytes sees the end all the same. The socket does not block.
            let _ = stream.into_std().and_then(|mut stream| stream.write(REFUSAL));
            return None;
        };
        // A small answer must not wait for the next one.
        let _ = stream.set_nodelay(true);
        Some(Accepted { stream, place })
    }
}

/// Number of places, of at most half of the files that the process may open: the others are the store's.
fn within(max: usize, files: Option<u64>) -> usize {
    let half = files.map_or(usize::MAX, |files| usize::try_from(files / 2).unwrap_or(usize::MAX)).max(1);
    if half < max {
        tracing::warn!(max, places = half, "the process may open too few files (ulimit -n) for all connections");
    }
    max.clamp(1, half).min(Semaphore::MAX_PERMITS)
}

/// Events that are logged once in a while, with their number.
#[derive(Debug, Default)]
struct Often {
    last: Option<Instant>,
    times: u64,
}

impl Often {
    /// Counts an event. Returns the number since the last line if one is due.
    fn count(&mut self, now: Instant) -> Option<u64> {
        self.times += 1;
        if self.last.is_some_and(|last| now.duration_since(last) < QUIET) {
            return None;
        }
        self.last = Some(now);
        Some(core::mem::take(&mut self.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_files_are_for_connections() {
        assert_eq!(within(500, None), 500);
        assert_eq!(within(500, Some(1_000)), 500);
        assert_eq!(within(500, Some(999)), 499);
        assert_eq!(within(500, Some(1)), 1);
        assert_eq!(within(0, Some(1_000)), 1);
    }

    #[test]
    fn a_flood_makes_few_lines() {
        let begun = Instant::now();
        let mut often = Often::default();
        assert_eq!(often.count(begun), Some(1));
        for _ in 0..5 {
            assert_eq!(often.count(begun + Duration::from_secs(9)), None);
        }
        assert_eq!(often.count(begun + Duration::from_secs(10)), Some(6));
    }

    #[test]
    fn the_refusal_is_whole() {
        let text = core::str::from_utf8(REFUSAL).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    }
}
