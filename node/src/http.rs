//! JSON-RPC over HTTP, as this node asks other processes: one connection, one request at a time.

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use std::error::Error;
use tokio::net::{TcpStream, ToSocketAddrs};

/// An open connection.
pub(crate) type Sending = http1::SendRequest<Full<Bytes>>;

/// Reason for which there is no answer.
pub(crate) type Failed = Box<dyn Error + Send + Sync>;

/// Connects to `address`; logs name it by `peer`.
pub(crate) async fn connect(address: impl ToSocketAddrs, peer: &'static str) -> Result<Sending, Failed> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sending, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to {peer} has ended");
        }
    });
    Ok(sending)
}

/// Sends a request, and reads an answer of at most so many bytes. A longer one is a [`http_body_util::LengthLimitError`].
pub(crate) async fn post(
    sending: &mut Sending,
    host: &str,
    body: impl Into<Bytes>,
    most: usize,
) -> Result<(StatusCode, Bytes), Failed> {
    let request = Request::post("/")
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body.into()))?;
    sending.ready().await?;
    let response = sending.send_request(request).await?;
    let status = response.status();
    Ok((status, Limited::new(response.into_body(), most).collect().await?.to_bytes()))
}
