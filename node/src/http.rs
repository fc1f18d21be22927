//! JSON-RPC over HTTP and HTTPS, as this node asks other processes. Connections are kept and used again.

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Request, StatusCode, Uri,
    body::{Body as _, Bytes},
    header,
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use std::{error::Error, time::Duration};

/// Maximum number of idle connections that are kept.
const IDLE: usize = 4;

/// Time after which an idle connection is closed.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// Reason for which there is no answer.
pub type Failed = Box<dyn Error + Send + Sync>;

/// An answer is longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer that is longer than {most} bytes")]
pub struct TooLong {
    /// Maximum length, in bytes.
    pub most: usize,
}

/// Connections to one server. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Client {
    inner: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    uri: Uri,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub struct Response {
    /// Status.
    pub status: StatusCode,
    /// Head.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

impl Client {
    /// A client of a server at an address as `https://node.example/key`. Certificates are those that the system trusts.
    ///
    /// # Errors
    /// The text is no such address, or no certificate is found.
    pub fn new(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|_| format!("{url:?} is no URL, as in http://127.0.0.1:8545"))?;
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.is_empty() || authority.contains('@') {
            return Err(format!("{url:?} names no host, or a password, which is not sent"));
        }
        let mut plain = HttpConnector::new();
        plain.set_nodelay(true);
        plain.enforce_http(false);
        let builder = HttpsConnectorBuilder::new();
        let connector = match uri.scheme_str() {
            // Without a look at the certificates of the system.
            Some("http") => builder.with_tls_config(without_roots()),
            Some("https") => builder.with_native_roots().map_err(|error| format!("no trusted certificate: {error}"))?,
            _ => return Err(format!("{url:?} begins with neither http:// nor https://")),
        };
        let connector = connector.https_or_http().enable_http1().wrap_connector(plain);
        let inner = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE)
            .pool_idle_timeout(IDLE_TIME)
            .build(connector);
        Ok(Self { inner, uri })
    }

    /// Sends a body, and reads an answer of at most so many bytes.
    ///
    /// # Errors
    /// No connection, or one that ends; [`TooLong`].
    pub async fn post(&self, body: impl Into<Bytes>, most: usize) -> Result<Response, Failed> {
        let request = Request::post(self.uri.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body.into()))?;
        let response = self.inner.request(request).await?;
        let (parts, body) = response.into_parts();
        if body.size_hint().lower() > most as u64 {
            return Err(TooLong { most }.into());
        }
        let body = Limited::new(body, most).collect().await.map_err(|error| match error.is::<LengthLimitError>() {
            true => TooLong { most }.into(),
            false => error,
        })?;
        let body = body.to_bytes();
        Ok(Response { status: parts.status, headers: parts.headers, body })
    }
}

/// Scheme, host and port: a path may hold a key, which no text should.
impl core::fmt::Display for Client {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        write!(f, "{}://{authority}", self.uri.scheme_str().unwrap_or_default())
    }
}

/// An error with its causes, in words.
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut next) = (error.to_string(), error.source());
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}

/// Settings of TLS for a client that speaks none.
fn without_roots() -> rustls::ClientConfig {
    rustls::ClientConfig::builder().with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_servers() {
        for (sound, server) in [
            ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
            ("http://[::1]:8545/key?x=1", "http://[::1]:8545"),
            ("http://node/secret", "http://node"),
        ] {
            assert_eq!(Client::new(sound).map(|client| client.to_string()), Ok(server.to_owned()), "{sound}");
        }
        for wrong in ["", "node:8545", "ws://node", "http://", "http://me:secret@node", "/path", "file:///x"] {
            assert!(Client::new(wrong).is_err(), "{wrong}");
        }
    }
}
