//! A client of JSON-RPC over plain HTTP and WebSocket, with no types between.

use alloy_primitives::{B256, Bytes};
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

/// Time that any answer may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    address: SocketAddr,
}

impl Client {
    pub(crate) const fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Status and body of a POST.
    pub(crate) fn post(&self, body: &[u8]) -> std::io::Result<(u16, String)> {
        self.post_with("", body)
    }

    /// Status and body of a POST with further lines in its head.
    pub(crate) fn post_with(&self, lines: &str, body: &[u8]) -> std::io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let head = format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{lines}Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        // A server that refuses early need not read the rest.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        assert!(!head.to_lowercase().contains("chunked"), "{head}");
        Ok((status, body.to_owned()))
    }

    /// The page at a path.
    pub(crate) fn page(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        (status, answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned())
    }

    /// The whole answer to a request.
    pub(crate) fn ask(&self, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (status, body) = self.post(request.to_string().as_bytes()).expect("an answer");
        assert_eq!(status, 200, "{method}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{method}: {error}: {body}"))
    }

    /// The result of a request that succeeds.
    pub(crate) fn get(&self, method: &str, params: Value) -> Value {
        let mut answer = self.ask(method, params.clone());
        assert!(answer.get("error").is_none(), "{method}{params}: {answer}");
        answer["result"].take()
    }

    /// Code and text of a request that fails.
    pub(crate) fn error(&self, method: &str, params: Value) -> (i64, String) {
        let answer = self.ask(method, params.clone());
        let error = answer.get("error").unwrap_or_else(|| panic!("{method}{params}: {answer}"));
        (error["code"].as_i64().expect("a code"), error["message"].as_str().expect("a text").to_owned())
    }

    /// Sends a transaction and returns its hash.
    pub(crate) fn send(&self, tx: &Bytes) -> B256 {
        serde_json::from_value(self.get("eth_sendRawTransaction", json!([tx]))).expect("a hash")
    }

    /// Sends a transaction, waits for its receipt, and returns that.
    pub(crate) fn include(&self, tx: &Bytes) -> Value {
        let hash = self.send(tx);
        let begun = Instant::now();
        loop {
            let receipt = self.get("eth_getTransactionReceipt", json!([hash]));
            if !receipt.is_null() {
                return receipt;
            }
            assert!(begun.elapsed() < PATIENCE, "{hash} has no receipt");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// A quantity that a request answers.
    pub(crate) fn quantity(&self, method: &str, params: Value) -> u128 {
        let value = self.get(method, params);
        let text = value.as_str().unwrap_or_else(|| panic!("{method}: {value}"));
        u128::from_str_radix(text.trim_start_matches("0x"), 16).expect("a quantity")
    }
}

/// A WebSocket connection, frame by frame (RFC 6455).
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
}

impl Socket {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::connect_with("", address).unwrap_or_else(|status| panic!("status {status}"))
    }

    /// Connects with further lines in the head of the handshake.
    ///
    /// # Errors
    /// Status of a refusal.
    pub(crate) fn connect_with(lines: &str, address: SocketAddr) -> Result<Self, u16> {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let head = format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n{lines}\r\n"
        );
        stream.write_all(head.as_bytes()).expect("written");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("an answer");
            answer.extend(byte);
        }
        let answer = String::from_utf8_lossy(&answer);
        match answer.split(' ').nth(1).and_then(|status| status.parse().ok()) {
            Some(101) => Ok(Self { stream }),
            status => Err(status.unwrap_or_default()),
        }
    }

    /// Sends a request without waiting.
    pub(crate) fn send(&mut self, id: u64, method: &str, params: Value) {
        let text = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        let mut frame = vec![0x81];
        match u16::try_from(text.len()) {
            Ok(len) if len < 126 => frame.push(0x80 | len as u8),
            Ok(len) => {
                frame.push(0x80 | 126);
                frame.extend(len.to_be_bytes());
            }
            Err(_) => panic!("a long request"),
        }
        // A mask of zero changes nothing.
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.stream.write_all(&frame).expect("written");
    }

    /// The next message; `None` if the server has closed the connection.
    pub(crate) fn next(&mut self) -> Option<Value> {
        loop {
            let mut head = [0; 2];
            self.stream.read_exact(&mut head).ok()?;
            let len = match head[1] & 0x7f {
                126 => {
                    let mut len = [0; 2];
                    self.stream.read_exact(&mut len).ok()?;
                    u64::from(u16::from_be_bytes(len))
                }
                127 => {
                    let mut len = [0; 8];
                    self.stream.read_exact(&mut len).ok()?;
                    u64::from_be_bytes(len)
                }
                len => u64::from(len),
            };
            let mut payload = vec![0; usize::try_from(len).expect("a length")];
            self.stream.read_exact(&mut payload).ok()?;
            match head[0] & 0x0f {
                1 => return Some(serde_json::from_slice(&payload).expect("JSON")),
                8 => return None,
                _ => {}
            }
        }
    }

    /// The answer to a request.
    pub(crate) fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(id, method, params);
        loop {
            let message = self.next().expect("an answer");
            if message["id"] == json!(id) {
                return message;
            }
        }
    }
}
