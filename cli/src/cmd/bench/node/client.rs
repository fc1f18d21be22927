//! JSON-RPC over a connection that stays open, with nothing between the measurement and the socket.

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json, value::RawValue};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection.
#[derive(Debug)]
pub(super) struct Client(BufReader<TcpStream>);

impl Client {
    pub(super) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).context("connecting to the node")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a request.
    pub(super) fn send(&mut self, head: &str, body: &str) -> anyhow::Result<()> {
        let len = body.len();
        let request = format!(
            "{head} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\r\n{body}"
        );
        Ok(self.0.get_mut().write_all(request.as_bytes())?)
    }

    /// Receives an answer's body.
    pub(super) fn receive(&mut self) -> anyhow::Result<String> {
        let (mut line, mut length, mut status) = (String::new(), None, None);
        loop {
            line.clear();
            ensure!(self.0.read_line(&mut line)? > 0, "the node has closed the connection");
            let text = line.trim_end();
            if text.is_empty() {
                break;
            }
            status = status.or_else(|| text.split(' ').nth(1)?.parse::<u16>().ok());
            let value = text.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            length = length.or_else(|| value?.1.trim().parse::<usize>().ok());
        }
        let mut body = vec![0; length.context("an answer without a length")?];
        self.0.read_exact(&mut body)?;
        let body = String::from_utf8(body)?;
        ensure!(status == Some(200), "status {status:?}: {body}");
        Ok(body)
    }

    /// The page at a path.
    pub(super) fn page(&mut self, path: &str) -> anyhow::Result<String> {
        self.send(&format!("GET {path}"), "")?;
        self.receive()
    }

    /// Connects, and makes the connection a WebSocket.
    pub(super) fn connect_websocket(address: SocketAddr) -> anyhow::Result<Self> {
        let mut client = Self::connect(address)?;
        let head = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                    Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n";
        client.0.get_mut().write_all(head.as_bytes())?;
        let mut line = String::new();
        client.0.read_line(&mut line)?;
        ensure!(line.contains("101"), "no WebSocket: {line}");
        while line.trim_end() != "" {
            line.clear();
            ensure!(client.0.read_line(&mut line)? > 0, "the node has closed the connection");
        }
        Ok(client)
    }

    /// Sends a message over a WebSocket, in one frame (RFC 6455). Its mask is zero: nothing between the two reads it.
    pub(super) fn send_message(&mut self, text: &str) -> anyhow::Result<()> {
        let mut frame = vec![0x81];
        match (u8::try_from(text.len()), u16::try_from(text.len())) {
            (Ok(len), _) if len < 126 => frame.push(0x80 | len),
            (_, Ok(len)) => {
                frame.push(0x80 | 126);
                frame.extend(len.to_be_bytes());
            }
            _ => {
                frame.push(0x80 | 127);
                frame.extend((text.len() as u64).to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        Ok(self.0.get_mut().write_all(&frame)?)
    }

    /// Receives a message over a WebSocket. Pings of the node come long after the end of a run.
    pub(super) fn receive_message(&mut self) -> anyhow::Result<String> {
        let mut head = [0; 2];
        self.0.read_exact(&mut head)?;
        ensure!(head[0] == 0x81, "a frame that begins with {:#x}", head[0]);
        let mut len = [0; 8];
        let long: &mut [u8] = match head[1] {
            126 => &mut len[6..],
            127 => &mut len,
            short => {
                len[7] = short;
                &mut []
            }
        };
        self.0.read_exact(long)?;
        let mut text = vec![0; usize::try_from(u64::from_be_bytes(len))?];
        self.0.read_exact(&mut text)?;
        Ok(String::from_utf8(text)?)
    }

    /// The result of a method.
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.send("POST /", &call(0, method, params))?;
        let mut answer: Value = serde_json::from_str(&self.receive()?)?;
        if !answer["error"].is_null() {
            bail!("{method}: {}", answer["error"]);
        }
        Ok(answer["result"].take())
    }
}

/// Text of a call.
pub(super) fn call(id: usize, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// Answers of a batch, or that to a single call.
pub(super) fn answers(text: &str) -> anyhow::Result<Vec<Value>> {
    let raw: &RawValue = serde_json::from_str(text)?;
    if raw.get().starts_with('[') { Ok(serde_json::from_str(text)?) } else { Ok(vec![serde_json::from_str(text)?]) }
}
