//! A client's connection with one replica.

use super::message::{MOST_REPLY, Reply, Request};
use crate::wire::{Refused, Seal, read_frame, write_frame};
use alloy_rlp::Decodable as _;
use std::{
    io::{BufReader, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

/// A client's connection with one replica: one end to send, one to receive.
#[derive(Debug)]
pub struct Client {
    input: BufReader<TcpStream>,
    output: TcpStream,
}

impl Client {
    /// Connects within `patience`.
    ///
    /// # Errors
    /// The replica cannot be reached.
    pub fn connect(address: SocketAddr, patience: Duration) -> Result<Self, Refused> {
        let output = TcpStream::connect_timeout(&address, patience)?;
        output.set_nodelay(true)?;
        output.set_write_timeout(Some(Duration::from_secs(5)))?;
        let input = BufReader::with_capacity(1 << 16, output.try_clone()?);
        Ok(Self { input, output })
    }

    /// A second handle on the connection, to send from another thread.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn sender(&self) -> Result<ClientSender, Refused> {
        Ok(ClientSender(self.output.try_clone()?))
    }

    /// Bounds the time that a reply is waited for.
    ///
    /// # Errors
    /// The system sets no such bound.
    pub fn patience(&self, patience: Duration) -> Result<(), Refused> {
        Ok(self.output.set_read_timeout(Some(patience))?)
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// The connection has ended, or the replica sent what is no reply.
    pub fn receive(&mut self) -> Result<Reply, Refused> {
        let body = read_frame(&mut self.input, &mut Seal::None, MOST_REPLY)?;
        Reply::decode(&mut body.as_slice()).map_err(Refused::Malformed)
    }
}

/// The sending end of a [`Client`].
#[derive(Debug)]
pub struct ClientSender(TcpStream);

impl ClientSender {
    /// Sends a request.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn send(&mut self, request: &Request) -> Result<(), Refused> {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &mut Seal::None, &alloy_rlp::encode(request))?;
        Ok(self.0.write_all(&bytes)?)
    }

    /// Ends the connection for both ends.
    pub fn close(&self) {
        // A connection that is closed already is as good.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}
