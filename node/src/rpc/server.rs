//! The server: HTTP/1.1 and WebSocket on one port, on sockets of the edge.

use super::{
    accounts,
    api::{Api, stopped},
    blocks, calls, changes, debug, development,
    dispatch::Dispatch,
    engine,
    feed::Feed,
    fees, fill, lists, logs, many, otterscan, parity, phalanx, pool, proof, ranges,
    registry::Registry,
    send, simulate, small, subscribe,
    visit::{Host, Visit},
    wait, wallet, witness,
};
use crate::{
    config::RpcConfig,
    edge::{Accepted, Account, Connection, Listener, Pace, Patience, Places, Pool, Socket, Web},
    engine_api::Secret,
    error::NodeError,
};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::watch;
use tower::ServiceBuilder;
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

/// Time until a connection has begun its first request.
const FIRST_REQUEST: Duration = Duration::from_secs(30);

/// Maximum number of bytes that are read ahead of a connection, and of the head of a request.
const HEAD: usize = 64 << 10;

/// Bytes of requests, and of answers, that a connection holds beside those of all: others cannot take them.
const OWN: usize = 64 << 10;

/// Answer to a connection without a place.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 40\r\n\
    Retry-After: 1\r\nConnection: close\r\n\r\nThe node has no place for a connection.\n";

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stops: watch::Sender<bool>,
    places: Places,
}

impl Server {
    /// Starts the server. With a secret each request needs a token of it.
    ///
    /// # Errors
    /// [`NodeError::Listen`], or origins or hosts that are none.
    pub(crate) async fn start(api: Arc<Api>, places: Places, secret: Option<Secret>) -> Result<Self, NodeError> {
        let limits = api.limits.clone();
        let listen = |source| NodeError::Listen { address: limits.address, source };
        let listener = Listener::bind(limits.address, &places, "JSON-RPC", REFUSAL).map_err(listen)?;
        let address = listener.address().map_err(listen)?;
        let web = Web::new(&limits.cors, &limits.hosts, address).map_err(NodeError::Setting)?;
        let (stops, stopped) = watch::channel(false);
        let feed = Feed::new();
        tokio::spawn(Arc::clone(&feed).run(Arc::clone(&api.chain), stopped.clone()));
        let pools = (Pool::new(limits.max_request_bytes), Pool::new(limits.max_answer_bytes));
        api.metrics.rpc.of_pools(&pools.0, &pools.1);
        let dispatch = Dispatch::new(api, methods(&limits.namespaces));
        let host = Arc::new(Host { dispatch, web, secret, feed, pools, stops: stopped });
        tokio::spawn(accept(listener, host, limits));
        Ok(Self { address, stops, places })
    }

    /// Refuses new requests, and waits for those in flight.
    pub(crate) async fn stop(self, patience: Duration) {
        self.stops.send_replace(true);
        let _ = tokio::time::timeout(patience, self.places.all_free()).await;
    }
}

/// Accepts connections until the server stops.
async fn accept(listener: Listener, host: Arc<Host>, limits: RpcConfig) {
    let pace = Pace { patience: limits.patience, rate: limits.rate.max(1) };
    let patience = Patience { pace, first: FIRST_REQUEST.min(limits.idle), idle: limits.idle };
    let (cors, mut stops) = (cors(&host.web), host.stops.clone());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stops) => return,
        };
        let metrics = &host.dispatch.api.metrics;
        let Some(Accepted { stream, place }) = accepted else {
            metrics.rpc.refused();
            continue;
        };
        metrics.rpc.connected();
        let account = |pool: &Arc<Pool>| Account::new(pool, OWN, usize::MAX);
        let connection = Connection::new(patience, account(&host.pools.0), account(&host.pools.1), Instant::now());
        let socket = Socket::new(stream, Arc::clone(&connection));
        tokio::spawn(serve(socket, Visit::new(Arc::clone(&host), connection, place), cors.clone(), host.stops.clone()));
    }
}

/// Serves a connection to its end, or until it becomes a WebSocket.
async fn serve(socket: Socket, visit: Arc<Visit>, cors: Option<CorsLayer>, mut stops: watch::Receiver<bool>) {
    let inner = Arc::clone(&visit);
    let serves = ServiceBuilder::new().option_layer(cors).service_fn(move |request| {
        let visit = Arc::clone(&inner);
        async move { Ok::<_, Infallible>(visit.serve(request).await) }
    });
    let service = service_fn(move |request| {
        let (visit, serves) = (Arc::clone(&visit), serves.clone());
        async move { Ok::<_, Infallible>(visit.respond(request, serves).await) }
    });
    let connection =
        http1::Builder::new().max_buf_size(HEAD).serve_connection(TokioIo::new(socket), service).with_upgrades();
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stopped(&mut stops) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of JSON-RPC has ended");
    }
}

fn methods(namespaces: &[String]) -> Registry {
    let mut registry = Registry::new(namespaces);
    for register in [
        small::register,
        blocks::register,
        accounts::register,
        calls::register,
        many::register,
        fill::register,
        simulate::register,
        fees::register,
        logs::register,
        changes::register,
        pool::register,
        debug::register,
        ranges::register,
        parity::register,
        otterscan::register,
        lists::register,
        phalanx::register,
        proof::register,
        witness::register,
        engine::register,
        send::register,
        wallet::register,
        development::register,
        wait::register,
        subscribe::register,
    ] {
        register(&mut registry);
    }
    registry
}

/// Permission for web pages of the named origins.
fn cors(web: &Web) -> Option<CorsLayer> {
    let origins = match web.origins() {
        None => AllowOrigin::any(),
        Some([]) => return None,
        Some(origins) => AllowOrigin::list(origins.iter().filter_map(|origin| origin.parse().ok())),
    };
    Some(CorsLayer::new().allow_origin(origins).allow_methods(Any).allow_headers(Any))
}

#[cfg(test)]
mod tests {
    use super::super::registry::{Load, Method};
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_reference_lists_every_heavy_method() {
        let namespaces = crate::config::NAMESPACES.map(str::to_owned);
        let methods = methods(&namespaces).methods;
        let is_heavy = |method: &Method| matches!(method, Method::Run { load: Load::Heavy, .. });
        let heavy: BTreeSet<_> = methods.iter().filter(|(_, method)| is_heavy(method)).map(|(name, _)| *name).collect();
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/json-rpc.md");
        let page = std::fs::read_to_string(page).expect("the reference");
        let list = page.split("Heavy calls take a place:").nth(1).and_then(|rest| rest.split("\n\n").next());
        let listed: BTreeSet<_> = list.expect("the list").split('`').skip(1).step_by(2).collect();
        assert_eq!(listed, heavy);
    }

    #[test]
    fn the_refusal_is_whole() {
        let text = core::str::from_utf8(REFUSAL).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    }
}
