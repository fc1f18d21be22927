//! Stream of a socket: TCP, or a Unix socket of this machine.

use std::{
    io::{IoSlice, Result},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// A connected socket of either kind.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Calls the same of either kind.
macro_rules! either {
    ($self:ident, $call:ident($($argument:expr),*)) => {
        match $self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).$call($($argument),*),
            Stream::Unix(stream) => Pin::new(stream).$call($($argument),*),
        }
    };
}

impl Stream {
    /// Makes the end of the connection drop what the peer has not read: the kernel would keep it for minutes.
    pub(super) fn drop_unread(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        either!(self, poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        either!(self, poll_write(cx, buf))
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<Result<usize>> {
        either!(self, poll_write_vectored(cx, bufs))
    }

    /// True of both.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        either!(self, poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        either!(self, poll_shutdown(cx))
    }
}
