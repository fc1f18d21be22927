//! A socket with deadlines: it ends with an error when its peer is idle, sends too slowly or does not read.

use super::{connection::Connection, stream::Stream};
use std::{
    future::Future as _,
    io::{Error, ErrorKind, IoSlice, Result},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep_until},
};

/// A socket of a connection.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Stream,
    connection: Arc<Connection>,
    read: Pin<Box<Sleep>>,
    write: Pin<Box<Sleep>>,
}

impl Socket {
    pub(crate) fn new(stream: Stream, connection: Arc<Connection>) -> Self {
        let timer = || Box::pin(sleep_until(Instant::now().into()));
        Self { stream, connection, read: timer(), write: timer() }
    }

    /// Notes what a write has moved. One that moves nothing ends with an error at its deadline.
    fn wrote(&mut self, cx: &mut Context<'_>, done: Poll<Result<usize>>, all: usize) -> Poll<Result<usize>> {
        let now = Instant::now();
        match done {
            Poll::Ready(Ok(bytes)) => {
                self.connection.taken(bytes, bytes >= all, now);
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(error) => Poll::Ready(error),
            Poll::Pending => {
                ready!(elapsed(self.write.as_mut(), self.connection.write_deadline(now), cx));
                self.connection.write_late();
                self.stream.drop_unread();
                Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the answer is not read")))
            }
        }
    }
}

/// Waits for a deadline, which may have moved since the last call.
fn elapsed(mut timer: Pin<&mut Sleep>, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
    if timer.deadline() != deadline.into() {
        timer.as_mut().reset(deadline.into());
    }
    timer.poll(cx)
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        if let Poll::Ready(done) = Pin::new(&mut this.stream).poll_read(cx, buf) {
            let bytes = buf.filled().len() - before;
            let counted = if bytes == 0 { Ok(()) } else { this.connection.arrived(bytes, Instant::now()) };
            return Poll::Ready(done.and_then(|()| counted.map_err(|full| Error::new(ErrorKind::QuotaExceeded, full))));
        }
        let Some(deadline) = this.connection.read_deadline() else { return Poll::Pending };
        ready!(elapsed(this.read.as_mut(), deadline, cx));
        this.connection.read_late();
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "nothing arrives")))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.wrote(cx, done, buf.len())
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.wrote(cx, done, bufs.iter().map(|buf| buf.len()).sum())
    }

    /// True: an answer is written where it is, without a copy.
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        // hyper does not read again behind an answer before something wakes it: the time of an idle connection begins here. The timer
        // wakes the task, and reading ends the connection.
        if let Some(deadline) = this.connection.read_deadline() {
            let _ = elapsed(this.read.as_mut(), deadline, cx);
        }
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
