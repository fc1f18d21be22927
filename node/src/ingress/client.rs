//! A client of the binary ingress: blocking, for one thread that sends and one that receives, or for one that does both.

use super::wire::{self, Ended, GREETING, Verdict};
use crate::config::IngressAddress;
use std::{
    io::{BufReader, Error, ErrorKind, Read, Result, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
};

/// Maximum size of a frame from the node, in bytes: verdicts on the most transactions of a frame, and more.
const MAX_FRAME: u32 = 1 << 20;

/// Sending half of a connection.
#[derive(Debug)]
pub struct Sender {
    stream: Stream,
    frame: Vec<u8>,
    /// Maximum number of bytes and of transactions in a frame.
    most: (u32, u32),
}

/// Receiving half of a connection.
#[derive(Debug)]
pub struct Receiver(BufReader<Stream>);

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn try_clone(&self) -> Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buf),
            Self::Unix(stream) => stream.read(buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buf),
            Self::Unix(stream) => stream.write(buf),
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Connects to a node.
///
/// # Errors
/// The node is not there, or another protocol is.
pub fn connect(address: &IngressAddress) -> Result<(Sender, Receiver)> {
    let mut stream = match address {
        IngressAddress::Tcp(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Stream::Tcp(stream)
        }
        IngressAddress::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
    };
    stream.write_all(&GREETING)?;
    let mut receiver = Receiver(BufReader::new(stream.try_clone()?));
    let mut greeting = [0; 16];
    receiver.0.read_exact(&mut greeting)?;
    let (name, most) = greeting.split_at(GREETING.len());
    if *name != GREETING {
        return Err(Error::new(ErrorKind::InvalidData, Ended::Greeting));
    }
    let number = |at: usize| u32::from_be_bytes([most[at], most[at + 1], most[at + 2], most[at + 3]]);
    Ok((Sender { stream, frame: Vec::new(), most: (number(0), number(4)) }, receiver))
}

impl Sender {
    /// Maximum number of transactions in a frame.
    pub const fn max_txs(&self) -> usize {
        self.most.1 as usize
    }

    /// Sends a frame of transactions, EIP-2718 bytes each. Waits while the node reads nothing.
    ///
    /// # Errors
    /// The frame is longer than the node permits: nothing was sent. Otherwise the connection has ended.
    pub fn send(&mut self, txs: &[impl AsRef<[u8]>]) -> Result<()> {
        let bytes: usize = txs.iter().map(|tx| 4 + tx.as_ref().len()).sum();
        if txs.len() > self.max_txs() || bytes > self.most.0 as usize {
            return Err(Error::new(ErrorKind::InvalidInput, Ended::TooLong));
        }
        self.frame.clear();
        wire::write_txs(txs, &mut self.frame);
        self.stream.write_all(&self.frame)
    }
}

impl Receiver {
    /// Receives the verdicts on the transactions of the next frame, in their order.
    ///
    /// # Errors
    /// The connection has ended. [`Ended`] is the source if the node has a reason.
    pub fn receive(&mut self) -> Result<Vec<Verdict>> {
        let mut len = [0; 4];
        self.0.read_exact(&mut len)?;
        let len = u32::from_be_bytes(len);
        let wrong = || Error::new(ErrorKind::InvalidData, "no frame of a node");
        if len > MAX_FRAME {
            return Err(wrong());
        }
        let mut frame = vec![0; len as usize];
        self.0.read_exact(&mut frame)?;
        wire::read_verdicts(&frame).ok_or_else(wrong)?.map_err(|why| Error::new(ErrorKind::ConnectionAborted, why))
    }
}
