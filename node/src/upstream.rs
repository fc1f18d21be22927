//! JSON-RPC of the node that a follower follows, over plain HTTP.

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Request, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use phalanx::alloy::primitives::Bytes;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::{error::Error, sync::Arc, time::Duration};
use tokio::{net::TcpStream, runtime::Handle, sync::Mutex, time};

/// Maximum size of an answer, in bytes: a few blocks.
const ANSWER: usize = 256 << 20;

/// Time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

type Sending = http1::SendRequest<Full<hyper::body::Bytes>>;

/// Reason for which there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UpstreamError {
    /// It is not there, or what it says is no answer: another try may succeed.
    #[error("the upstream node does not answer: {0}")]
    Away(String),
    /// It answers with an error.
    #[error("the upstream node says: {message}")]
    Refused { code: i32, message: String, data: Option<Bytes> },
}

/// The node that is followed. Clones share one connection; calls wait for each other.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    runtime: Handle,
    /// Host and port.
    address: Arc<str>,
    connection: Arc<Mutex<Option<Sending>>>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    code: i32,
    message: String,
    #[serde(default)]
    data: Option<Value>,
}

impl Upstream {
    /// Names the node by host and port.
    pub(crate) fn new(runtime: Handle, address: &str) -> Self {
        Self { runtime, address: address.into(), connection: Arc::default() }
    }

    /// Calls a method and waits for the answer. Not for a thread of the runtime.
    pub(crate) fn call<T: serde::de::DeserializeOwned>(
        &self,
        method: &str,
        params: &Value,
    ) -> Result<T, UpstreamError> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let away = |error: &dyn core::fmt::Display| UpstreamError::Away(error.to_string());
        let answer = self.runtime.block_on(async {
            let mut connection = self.connection.lock().await;
            let sent = time::timeout(PATIENCE, send(&mut connection, &self.address, body)).await;
            let sent = sent.unwrap_or_else(|_| Err("no answer in time".into()));
            if sent.is_err() {
                *connection = None;
            }
            sent.map_err(|error| away(&error))
        })?;
        let answer: Answer = serde_json::from_slice(&answer).map_err(|error| away(&error))?;
        if let Some(Refusal { code, message, data }) = answer.error {
            let data = data.and_then(|data| serde_json::from_value(data).ok());
            return Err(UpstreamError::Refused { code, message, data });
        }
        let result = answer.result.as_deref().map_or("null", RawValue::get);
        serde_json::from_str(result).map_err(|error| away(&error))
    }
}

async fn send(
    connection: &mut Option<Sending>,
    address: &str,
    body: String,
) -> Result<hyper::body::Bytes, Box<dyn Error + Send + Sync>> {
    let sending = match connection {
        Some(sending) if !sending.is_closed() => sending,
        _ => connection.insert(connect(address).await?),
    };
    let request = Request::post("/")
        .header(header::HOST, address)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::from(body))?;
    sending.ready().await?;
    let response = sending.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER).collect().await?.to_bytes();
    if status.is_success() { Ok(body) } else { Err(format!("status {status}").into()) }
}

async fn connect(address: &str) -> Result<Sending, Box<dyn Error + Send + Sync>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sending, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to the upstream node has ended");
        }
    });
    Ok(sending)
}
