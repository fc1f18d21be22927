//! Sockets before anything is read from them: at most so many, and a line in the log when there are too many.

use super::stream::Stream;
use parking_lot::Mutex;
use std::{
    io::{self, Write as _},
    net::SocketAddr,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpSocket, UnixListener},
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

/// A listening socket with a bounded number of connections.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: Listening,
    /// Name in the log.
    name: &'static str,
    /// Answer to a connection without a place. It is short, so that the kernel takes it at once.
    refusal: &'static [u8],
    places: Places,
    refused: Mutex<Often>,
    failed: Mutex<Often>,
}

#[derive(Debug)]
enum Listening {
    Tcp(TcpListener),
    /// The socket, and its file.
    Unix(UnixListener, PathBuf),
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A connection and its place, which it holds until it is dropped.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) stream: Stream,
    pub(crate) place: OwnedSemaphorePermit,
}

impl Listener {
    /// Listens at an address.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub(crate) fn bind(
        address: SocketAddr,
        places: &Places,
        name: &'static str,
        refusal: &'static [u8],
    ) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.set_send_buffer_size(KERNEL_BUFFER)?;
        socket.set_recv_buffer_size(KERNEL_BUFFER)?;
        socket.bind(address)?;
        Ok(Self::of(Listening::Tcp(socket.listen(BACKLOG)?), places, (name, refusal)))
    }

    /// Listens on a Unix socket. One that an earlier process has left behind is replaced.
    ///
    /// # Errors
    /// The path cannot be listened on.
    pub(crate) fn bind_path(path: &Path, places: &Places, name: &'static str) -> io::Result<Self> {
        // Linux refuses to connect to any file that nothing listens on.
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
        let is_left = || {
            std::os::unix::net::UnixStream::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        };
        if is_socket && is_left() {
            std::fs::remove_file(path)?;
        }
        Ok(Self::of(Listening::Unix(UnixListener::bind(path)?, path.to_owned()), places, (name, b"")))
    }

    fn of(listener: Listening, places: &Places, (name, refusal): (&'static str, &'static [u8])) -> Self {
        let places = places.clone();
        Self { listener, name, refusal, places, refused: Mutex::default(), failed: Mutex::default() }
    }

    /// Address of a TCP socket.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        match &self.listener {
            Listening::Tcp(listener) => listener.local_addr(),
            Listening::Unix(..) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The next connection that has a place; `None` if one was refused. Cancelling loses no connection.
    pub(crate) async fn accept(&self) -> Option<Accepted> {
        let accepted = match &self.listener {
            Listening::Tcp(listener) => listener.accept().await.map(|(stream, _)| Stream::Tcp(stream)),
            Listening::Unix(listener, _) => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                if let Some(times) = self.failed.lock().count(Instant::now()) {
                    tracing::warn!(%error, times, "connections of {} are not accepted", self.name);
                }
                tokio::time::sleep(PAUSE).await;
                return None;
            }
        };
        let Ok(place) = Arc::clone(&self.places.free).try_acquire_owned() else {
            if let Some(times) = self.refused.lock().count(Instant::now()) {
                let (max, name) = (self.places.max, self.name);
                tracing::warn!(max, times, "connections of {name} are refused: all places are taken");
            }
            // A client that does not take these bytes sees the end all the same. The socket does not block.
            if let Stream::Tcp(stream) = stream {
                let _ = stream.into_std().and_then(|mut stream| stream.write(self.refusal));
            }
            return None;
        };
        if let Stream::Tcp(stream) = &stream {
            // A small answer must not wait for the next one.
            let _ = stream.set_nodelay(true);
        }
        Some(Accepted { stream, place })
    }
}

/// Places of connections, which listeners may share.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    max: usize,
}

impl Places {
    /// At most `max` places, and fewer where the process may open fewer files: half of them are for connections, and this is one of
    /// so many equal parts of that half.
    pub(crate) fn new(max: usize, parts: u64) -> Self {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let max = within(max, files.map(|files| files / parts));
        Self { free: Arc::new(Semaphore::new(max)), max }
    }

    /// Waits until every connection has ended.
    pub(crate) async fn all_free(&self) {
        let _ = self.free.acquire_many(u32::try_from(self.max).unwrap_or(u32::MAX)).await;
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
}
