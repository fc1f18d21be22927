//! HTTP and JSON-RPC to the processes under test.

use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Body of an HTTP answer. `None` if the process is down, which it may be at any moment.
pub(crate) fn http(address: SocketAddr, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

/// Answer to a request of JSON-RPC; `None` if there is none.
pub(crate) fn post(address: SocketAddr, body: &Value) -> Option<Value> {
    let body = body.to_string();
    let len = body.len();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    serde_json::from_str(&http(address, &(head + &body))?).ok()
}

/// Result of a method; `None` if there is no answer, or an error.
pub(crate) fn ask(address: SocketAddr, method: &str, params: &Value) -> Option<Value> {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    post(address, &request)?.get("result").cloned()
}
