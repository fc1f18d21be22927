//! Requests of one connection over HTTP/1.1: what is served, what is refused, and the way to a WebSocket.

use super::{
    answer,
    api::Api,
    dispatch::{Caller, Dispatch},
    error::RpcError,
    feed::Feed,
    subscribe::Subscriptions,
    websocket,
};
use crate::{
    edge::{Connection, Cut, Held, Pool, Socket, Web},
    engine_api::Secret,
};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body as _, Bytes, Incoming},
    header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, ORIGIN},
    upgrade::OnUpgrade,
};
use hyper_util::rt::TokioIo;
use jsonrpsee::types::{ErrorObjectOwned, error::reject_too_big_request};
use serde_json::value::RawValue;
use soketto::handshake::http::{Server as Handshake, is_upgrade_request};
use std::{
    convert::Infallible,
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tower::{Service, ServiceExt as _};

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Types of content that a page cannot send without asking first, as JSON-RPC names them.
const TYPES: [&str; 3] = ["application/json", "application/json-rpc", "application/jsonrequest"];

/// Parts that all connections share.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) web: Web,
    /// Secret of the tokens that requests need, if they need any.
    pub(super) secret: Option<Secret>,
    pub(super) feed: Arc<Feed>,
    /// Bytes of requests, and of answers.
    pub(super) pools: (Arc<Pool>, Arc<Pool>),
    pub(super) stops: watch::Receiver<bool>,
}

/// Connection that is served. Its place is free once this is dropped.
#[derive(Debug)]
pub(super) struct Visit {
    host: Arc<Host>,
    connection: Arc<Connection>,
    caller: Caller,
    _place: OwnedSemaphorePermit,
}

impl Host {
    /// The refusal of a request without a token, where one is needed.
    fn refuse(&self, value: Option<&HeaderValue>) -> Option<Response<Full<Bytes>>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let checked = self.secret.as_ref()?.check(value.and_then(|value| value.to_str().ok()), now);
        checked.err().map(|why| closing(response(StatusCode::UNAUTHORIZED, TEXT, why.to_string().into())))
    }
}

impl Visit {
    pub(super) fn new(host: Arc<Host>, connection: Arc<Connection>, place: OwnedSemaphorePermit) -> Arc<Self> {
        let caller = Caller::new(&host.dispatch.api, Arc::clone(&connection), None);
        Arc::new(Self { host, connection, caller, _place: place })
    }

    fn api(&self) -> &Api {
        &self.host.dispatch.api
    }

    /// Answers a request with what `serves` it, and keeps the books of the connection.
    pub(super) async fn respond<S>(self: Arc<Self>, request: Request<Incoming>, serves: S) -> Response<Full<Bytes>>
    where
        S: Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible>,
    {
        self.connection.begin(Instant::now());
        let response = if !self.host.web.is_host(request.headers().get(HOST)) {
            text(StatusCode::FORBIDDEN, "The name of the host is not one of this node: --rpc-hosts adds it.\n")
        } else if let Some(refused) = self.host.refuse(request.headers().get(AUTHORIZATION)) {
            refused
        } else {
            serves.oneshot(request).await.unwrap_or_else(|never| match never {})
        };
        self.connection.rest(Instant::now());
        response
    }

    /// Serves a request of a page that may call, or of a program.
    pub(super) async fn serve(self: Arc<Self>, mut request: Request<Incoming>) -> Response<Full<Bytes>> {
        if is_upgrade_request(&request) {
            if !self.host.web.permits(request.headers().get(ORIGIN)) {
                return text(StatusCode::FORBIDDEN, "Web pages of this origin may not call: --rpc-cors adds it.\n");
            }
            let Ok(answer) = Handshake::new().receive_request(&request) else {
                return text(StatusCode::BAD_REQUEST, "This is no handshake of a WebSocket of version 13.\n");
            };
            tokio::spawn(Arc::clone(&self).upgrade(hyper::upgrade::on(&mut request)));
            return answer.map(|()| Full::default());
        }
        if request.method() != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, "JSON-RPC is sent with POST.\n");
        }
        if !is_json(request.headers().get(CONTENT_TYPE)) {
            return text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "The content type of JSON-RPC is application/json.\n");
        }
        let (body, held) = match self.receive(request.into_body()).await {
            Ok(received) => received,
            Err(refused) => return refused,
        };
        match self.host.dispatch.answer(&body, held, &self.caller).await.answer {
            // The bytes are held until the kernel has taken the last of them.
            Some(answer) => json(StatusCode::OK, Bytes::from_owner(answer)),
            None => json(StatusCode::NO_CONTENT, Bytes::new()),
        }
    }

    /// Reads a body. Its socket ends it if it comes too slowly.
    async fn receive(&self, mut body: Incoming) -> Result<(Vec<u8>, Held), Response<Full<Bytes>>> {
        let max = self.api().limits.max_request;
        let too_big = || refusal(StatusCode::PAYLOAD_TOO_LARGE, reject_too_big_request(max));
        if body.size_hint().lower() > u64::from(max) {
            return Err(too_big());
        }
        let mut all = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return Err(match self.connection.why() {
                    Some(Cut::Full) => {
                        let error = RpcError::limit("too many bytes of requests are in flight: retry later");
                        refusal(StatusCode::SERVICE_UNAVAILABLE, error)
                    }
                    _ => text(StatusCode::REQUEST_TIMEOUT, "The request did not arrive in time.\n"),
                });
            };
            let Ok(data) = frame.into_data() else { continue };
            if all.len() + data.len() > max as usize {
                return Err(too_big());
            }
            // An eighth more than there is: what is reserved stays close to what has arrived.
            if all.capacity() - all.len() < data.len() {
                all.reserve_exact(data.len().max(all.len() / 8));
            }
            all.extend_from_slice(&data);
        }
        Ok((all, self.connection.complete(Instant::now())))
    }

    async fn upgrade(self: Arc<Self>, upgraded: OnUpgrade) {
        let upgraded = match upgraded.await {
            Ok(upgraded) => upgraded,
            Err(error) => return tracing::debug!(%error, "a connection does not become a WebSocket"),
        };
        // The socket is the listener's own: nothing lies between.
        let Ok(parts) = upgraded.downcast::<TokioIo<Socket>>() else { return };
        self.connection.upgrade(Instant::now());
        let subscriptions = Subscriptions::new(self.api(), &self.host.feed, &self.host.pools.0);
        let caller = Caller::new(self.api(), Arc::clone(&self.connection), Some(Arc::clone(&subscriptions)));
        let (dispatch, stops) = (Arc::clone(&self.host.dispatch), self.host.stops.clone());
        websocket::serve(parts.io.into_inner(), parts.read_buf.to_vec(), dispatch, caller, subscriptions, stops).await;
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.host.dispatch.api.metrics.rpc.disconnected(self.connection.why());
    }
}

/// True for the types of JSON-RPC, in any encoding that is UTF-8's.
fn is_json(content_type: Option<&HeaderValue>) -> bool {
    let Some(text) = content_type.and_then(|value| value.to_str().ok()) else { return false };
    let (kind, rest) = text.split_once(';').unwrap_or((text, ""));
    let is_utf8 = rest.trim().is_empty() || rest.trim().eq_ignore_ascii_case("charset=utf-8");
    is_utf8 && TYPES.iter().any(|known| kind.trim().eq_ignore_ascii_case(known))
}

fn response(status: StatusCode, kind: HeaderValue, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn json(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    response(status, JSON, body)
}

/// A refusal in words, behind which the connection ends: the rest of the request is not read.
fn text(status: StatusCode, why: &'static str) -> Response<Full<Bytes>> {
    closing(response(status, TEXT, Bytes::from_static(why.as_bytes())))
}

/// A refusal as an error of JSON-RPC, behind which the connection ends.
fn refusal(status: StatusCode, error: impl Into<ErrorObjectOwned>) -> Response<Full<Bytes>> {
    closing(json(status, Bytes::from_owner(answer::error(RawValue::NULL, error))))
}

fn closing(mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_types_of_json_are_taken() {
        let is = |text: &str| is_json(Some(&text.parse().expect("a value")));
        for kind in [
            "application/json",
            "Application/JSON",
            "application/json; charset=UTF-8",
            "application/json-rpc",
            "application/jsonrequest;charset=utf-8",
        ] {
            assert!(is(kind), "{kind}");
        }
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "",
            "application/json; charset=latin1",
            "application/jsonp",
        ] {
            assert!(!is(kind), "{kind}");
        }
        assert!(!is_json(None));
    }
}
