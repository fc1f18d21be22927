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

    /// Sends a request and reads the answer's body.
    fn exchange(&mut self, head: &str, body: &str) -> anyhow::Result<String> {
        let len = body.len();
        let request = format!(
            "{head} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\r\n{body}"
        );
        self.0.get_mut().write_all(request.as_bytes())?;
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

    /// Sends a body of JSON-RPC and gives the answer's.
    pub(super) fn post(&mut self, body: &str) -> anyhow::Result<String> {
        self.exchange("POST /", body)
    }

    /// The page at a path.
    pub(super) fn page(&mut self, path: &str) -> anyhow::Result<String> {
        self.exchange(&format!("GET {path}"), "")
    }

    /// The result of a method.
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        let mut answer: Value = serde_json::from_str(&self.post(&call(0, method, params))?)?;
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
