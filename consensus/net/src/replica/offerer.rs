//! A replica that is asked for its snapshots and their chunks, and the connection with it.

use crate::{
    client::{Reply, Request},
    config::MOST_ITEMS,
    wire::{Refused, Seal, Timed, read_frame, weigh, write_frame},
};
use alloy_rlp::Decodable as _;
use phalanx_bft::Index;
use std::{
    io::{ErrorKind, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Patience with a connection that is being made.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
/// Patience with a connection that takes no request.
const PATIENCE: Duration = Duration::from_secs(3);
/// Items of a list of snapshots, at most.
const MOST_PARTS: usize = 1 << 10;

/// Another replica, and the connection with it.
#[derive(Debug)]
pub(super) struct Offerer {
    pub(super) index: Index,
    address: SocketAddr,
    stream: Option<TcpStream>,
    /// Chunks that did not come or were wrong. Those with fewer are asked first, so that a silent peer costs its patience once.
    pub(super) failures: u32,
}

impl Offerer {
    pub(super) const fn new(index: Index, address: SocketAddr) -> Self {
        Self { index, address, stream: None, failures: 0 }
    }

    /// Sends a request and waits for its reply, as long as `watch` returns true. A connection that fails is made anew the next time, and
    /// at once if the peer has closed one that was kept: it does so with connections that were idle.
    pub(super) fn ask(
        &mut self,
        request: &Request,
        bounds: (usize, Duration),
        watch: &mut dyn FnMut() -> bool,
    ) -> Result<Reply, Refused> {
        let is_kept = self.stream.is_some();
        match self.ask_once(request, bounds, watch) {
            Err(Refused::Io(error)) if is_kept && is_closed(error.kind()) => self.ask_once(request, bounds, watch),
            asked => asked,
        }
    }

    fn ask_once(
        &mut self,
        request: &Request,
        (most, patience): (usize, Duration),
        watch: &mut dyn FnMut() -> bool,
    ) -> Result<Reply, Refused> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => TcpStream::connect_timeout(&self.address, CONNECT_PATIENCE)?,
        };
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &mut Seal::None, &alloy_rlp::encode(request))?;
        (&stream).write_all(&bytes)?;
        let body = read_frame(&mut Timed::watched(&stream, patience, watch), &mut Seal::None, most)?;
        // A block has its transactions.
        weigh(&body, if matches!(request, Request::Epoch(_)) { MOST_ITEMS } else { MOST_PARTS })?;
        let reply = Reply::decode(&mut body.as_slice()).map_err(Refused::Malformed)?;
        self.stream = Some(stream);
        Ok(reply)
    }
}

/// True for the errors of a connection that the other end has closed.
const fn is_closed(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, thread};

    /// A server that closes each connection behind its first reply is asked anew; one that never replies costs its patience once.
    #[test]
    fn a_connection_that_was_closed_while_it_was_idle_is_made_anew() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = thread::spawn(move || {
            for _ in 0..3 {
                let (mut stream, _) = listener.accept().expect("a connection");
                read_frame(&mut stream, &mut Seal::None, 100).expect("a request");
                let reply = alloy_rlp::encode(Reply::Chunk(vec![7].into()));
                write_frame(&mut stream, &mut Seal::None, &reply).expect("it reads");
            }
            let (mut silent, _) = listener.accept().expect("a connection");
            while read_frame(&mut silent, &mut Seal::None, 100).is_ok() {}
        });
        let mut offerer = Offerer::new(Index(0), address);
        let mut ask = |patience| offerer.ask(&Request::Chunk(1, 0), (100, patience), &mut || true);
        for _ in 0..3 {
            let reply = ask(Duration::from_secs(60)).expect("a reply");
            assert!(matches!(&reply, Reply::Chunk(chunk) if chunk[..] == [7]), "{reply:?}");
        }
        assert!(ask(Duration::from_millis(50)).is_err(), "it is silent");
        server.join().expect("one connection was silent, and no other came");
    }
}
