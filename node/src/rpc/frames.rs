//! Messages of a WebSocket (RFC 6455), over soketto's codec of frame headers.
//!
//! Memory grows with what has arrived, and never with what a header announces.

use soketto::{
    Parsing,
    base::{Codec, Header, OpCode},
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Number of bytes that are read at once.
const CHUNK: usize = 16 << 10;

/// Frames up to this size are written in one piece, in bytes.
const SMALL: usize = 16 << 10;

/// Codes of the end of a connection.
pub(super) const NORMAL: u16 = 1000;
pub(super) const GOING_AWAY: u16 = 1001;
pub(super) const PROTOCOL: u16 = 1002;
pub(super) const TOO_BIG: u16 = 1009;

/// Message or control frame of the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    Message(Vec<u8>),
    Ping(Vec<u8>),
    Pong,
    Close,
}

/// Reason for which nothing more can be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Socket(#[from] std::io::Error),
    #[error("{0}")]
    Frame(#[from] soketto::base::Error),
    #[error("{0}")]
    Protocol(&'static str),
    #[error("a message is longer than {max} bytes")]
    TooBig { max: usize },
}

impl Broken {
    /// Code that the client is sent, if it can be reached.
    pub(super) const fn code(&self) -> Option<u16> {
        match self {
            Self::Socket(_) => None,
            Self::Frame(soketto::base::Error::PayloadTooLarge { .. }) | Self::TooBig { .. } => Some(TOO_BIG),
            Self::Frame(_) | Self::Protocol(_) => Some(PROTOCOL),
        }
    }
}

/// Reads messages of a client.
#[derive(Debug)]
pub(super) struct Reader<R> {
    io: R,
    codec: Codec,
    max: usize,
    /// Bytes that have arrived, from `at` on.
    buffer: Vec<u8>,
    at: usize,
    /// Message of which frames have come, and its end has not.
    partial: Option<Vec<u8>>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// Reads messages of at most `max` bytes behind what has arrived already.
    pub(super) fn new(io: R, arrived: Vec<u8>, max: usize) -> Self {
        let mut codec = Codec::new();
        codec.set_max_data_size(max);
        Self { io, codec, max, buffer: arrived, at: 0, partial: None }
    }

    /// True between the frames of one message.
    pub(super) const fn is_partial(&self) -> bool {
        self.partial.is_some()
    }

    /// True if bytes of the next message have arrived.
    pub(super) const fn is_amid(&self) -> bool {
        self.partial.is_some() || self.at < self.buffer.len()
    }

    /// The next message.
    ///
    /// # Errors
    /// [`Broken`]: nothing more can be read.
    pub(super) async fn next(&mut self) -> Result<Incoming, Broken> {
        loop {
            let header = self.header().await?;
            if !header.is_masked() {
                return Err(Broken::Protocol("a frame of a client has no mask"));
            }
            match header.opcode() {
                OpCode::Ping => return Ok(Incoming::Ping(self.payload(&header, Vec::new()).await?)),
                OpCode::Pong => {
                    self.payload(&header, Vec::new()).await?;
                    return Ok(Incoming::Pong);
                }
                OpCode::Close => {
                    self.payload(&header, Vec::new()).await?;
                    return Ok(Incoming::Close);
                }
                _ => {}
            }
            let before = match (header.opcode(), self.partial.take()) {
                (OpCode::Continue, Some(partial)) => partial,
                (OpCode::Text | OpCode::Binary, None) => Vec::new(),
                _ => return Err(Broken::Protocol("a frame continues no message, or interrupts one")),
            };
            if before.len() + header.payload_len() > self.max {
                return Err(Broken::TooBig { max: self.max });
            }
            let message = self.payload(&header, before).await?;
            if header.is_fin() {
                return Ok(Incoming::Message(message));
            }
            self.partial = Some(message);
        }
    }

    async fn header(&mut self) -> Result<Header, Broken> {
        loop {
            match self.codec.decode_header(&self.buffer[self.at..])? {
                Parsing::Done { value, offset } => {
                    self.at += offset;
                    return Ok(value);
                }
                Parsing::NeedMore(_) => self.fill().await?,
            }
        }
    }

    /// Reads what has arrived into the buffer.
    async fn fill(&mut self) -> Result<(), Broken> {
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.reserve(CHUNK);
        ended(self.io.read_buf(&mut self.buffer).await?)
    }

    /// Appends the payload of a frame.
    async fn payload(&mut self, header: &Header, mut to: Vec<u8>) -> Result<Vec<u8>, Broken> {
        let (first, mut left) = (to.len(), header.payload_len());
        let there = left.min(self.buffer.len() - self.at);
        to.extend_from_slice(&self.buffer[self.at..self.at + there]);
        self.at += there;
        left -= there;
        while left > 0 {
            // An eighth more than there is: what is reserved stays close to what has arrived.
            to.reserve_exact(left.min(CHUNK.max(to.len() / 8)).max(1));
            let room = (to.capacity() - to.len()).min(left);
            let read = (&mut self.io).take(room as u64).read_buf(&mut to).await?;
            ended(read)?;
            left -= read;
        }
        Codec::apply_mask(header, &mut to[first..]);
        Ok(to)
    }
}

fn ended(read: usize) -> Result<(), Broken> {
    if read == 0 { Err(Broken::Socket(std::io::ErrorKind::UnexpectedEof.into())) } else { Ok(()) }
}

/// Writes one frame of `parts`.
///
/// # Errors
/// The socket's.
pub(super) async fn write<W: AsyncWrite + Unpin>(io: &mut W, opcode: OpCode, parts: &[&[u8]]) -> std::io::Result<()> {
    let mut header = Header::new(opcode);
    let len = parts.iter().map(|part| part.len()).sum();
    header.set_payload_len(len);
    let mut codec = Codec::new();
    let head = codec.encode_header(&header);
    if len <= SMALL {
        return io.write_all(&[&[head], parts].concat().concat()).await;
    }
    io.write_all(head).await?;
    for part in parts {
        io.write_all(part).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 100_000;

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut header = Header::new(OpCode::Text);
        header.set_payload_len(payload.len()).set_masked(true).set_mask(0x1234_5678);
        let mut bytes = Codec::new().encode_header(&header).to_vec();
        bytes[0] = first;
        let start = bytes.len();
        bytes.extend(payload);
        Codec::apply_mask(&header, &mut bytes[start..]);
        bytes
    }

    /// Reads all of what arrives in pieces of `step` bytes.
    async fn read(bytes: &[u8], step: usize) -> (Vec<Incoming>, Broken) {
        let (mut client, server) = tokio::io::duplex(step);
        let bytes = bytes.to_vec();
        let writing = tokio::spawn(async move {
            let _ = client.write_all(&bytes).await;
        });
        let mut reader = Reader::new(server, Vec::new(), MAX);
        let mut all = Vec::new();
        let end = loop {
            match reader.next().await {
                Ok(incoming) => all.push(incoming),
                Err(broken) => break broken,
            }
        };
        writing.abort();
        (all, end)
    }

    #[tokio::test]
    async fn messages_arrive_whole_in_pieces_and_between_controls() {
        let long = vec![7; MAX];
        let mut bytes = frame(0x81, b"one");
        bytes.extend(frame(0x01, b"two "));
        bytes.extend(frame(0x89, b"ping"));
        bytes.extend(frame(0x80, b"parts"));
        bytes.extend(frame(0x82, &long));
        bytes.extend(frame(0x8a, b""));
        bytes.extend(frame(0x88, &1000u16.to_be_bytes()));
        for step in [1, 7, 4_096, 1 << 20] {
            let (all, end) = read(&bytes, step).await;
            let wanted = [
                Incoming::Message(b"one".to_vec()),
                Incoming::Ping(b"ping".to_vec()),
                Incoming::Message(b"two parts".to_vec()),
                Incoming::Message(long.clone()),
                Incoming::Pong,
                Incoming::Close,
            ];
            assert!(all == wanted, "in steps of {step}");
            assert_eq!(end.code(), None);
        }
    }

    #[tokio::test]
    async fn wrong_frames_end_the_connection_with_their_code() {
        let mut unmasked = frame(0x81, b"a");
        unmasked[1] &= 0x7f;
        let interrupted = [frame(0x01, b"a"), frame(0x81, b"b")].concat();
        let too_long = [frame(0x01, &vec![0; MAX]), frame(0x80, b"b")].concat();
        for (bytes, code) in [
            (unmasked, PROTOCOL),
            (interrupted, PROTOCOL),
            (frame(0x80, b"a"), PROTOCOL),
            (frame(0xc1, b"a"), PROTOCOL),
            (frame(0x83, b"a"), PROTOCOL),
            (frame(0x09, b"a"), PROTOCOL),
            (frame(0x89, &[0; 126]), PROTOCOL),
            (frame(0x81, &vec![0; MAX + 1]), TOO_BIG),
            (too_long, TOO_BIG),
        ] {
            let (all, end) = read(&bytes, 4_096).await;
            assert_eq!((all.len(), end.code()), (0, Some(code)), "{:x?}: {end}", &bytes[..2]);
        }
    }

    #[tokio::test]
    async fn a_header_alone_takes_no_memory() {
        let (mut client, server) = tokio::io::duplex(64);
        let whole = frame(0x81, &vec![0; MAX]);
        client.write_all(&whole[..20]).await.expect("room");
        let mut reader = Reader::new(server, Vec::new(), MAX);
        let next = reader.next();
        tokio::pin!(next);
        assert!(tokio::time::timeout(std::time::Duration::from_millis(20), &mut next).await.is_err());
        drop(client);
        assert_eq!(next.await.expect_err("it ends").code(), None);
        let mut to = Vec::<u8>::new();
        to.reserve_exact(CHUNK);
        assert!(to.capacity() < MAX, "what is reserved ahead is less than a message");
    }
}
