//! The server: HTTP and WebSocket on one port, with the limits of the settings.

use super::{
    accounts, api::Api, blocks, calls, changes, debug, fees, ids::HexIds, logs, phalanx, pool, registry::Registry,
    small, subscribe, wait,
};
use crate::{config::RpcConfig, error::NodeError};
use jsonrpsee::server::{BatchRequestConfig, PingConfig, Server as RpcServer, ServerConfig, ServerHandle};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

/// Interval of the pings that find dead WebSocket connections.
const PING: Duration = Duration::from_secs(30);

/// Time until a connection has sent its first request.
const FIRST_REQUEST: Duration = Duration::from_secs(30);

/// Number of messages that wait for a slow connection before its subscriptions are held up.
const BUFFER: u32 = 1_024;

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    handle: ServerHandle,
}

impl Server {
    /// Starts the server.
    ///
    /// # Errors
    /// [`NodeError::Listen`], or origins that are none.
    pub(crate) async fn start(api: Arc<Api>) -> Result<Self, NodeError> {
        let limits = api.limits.clone();
        let listen = |source| NodeError::Listen { address: limits.address, source };
        let config = ServerConfig::builder()
            .max_request_body_size(limits.max_request)
            .max_response_body_size(limits.max_response)
            .max_connections(limits.max_connections)
            .max_subscriptions_per_connection(limits.max_subscriptions)
            .set_batch_request_config(BatchRequestConfig::Limit(limits.max_batch))
            .set_message_buffer_capacity(BUFFER)
            .enable_ws_ping(PingConfig::new().ping_interval(PING))
            .set_id_provider(HexIds)
            .set_first_request_timeout(Some(FIRST_REQUEST))
            .build();
        let middleware = tower::ServiceBuilder::new().option_layer(cors(&limits)?);
        let server = RpcServer::builder()
            .set_config(config)
            .set_http_middleware(middleware)
            .build(limits.address)
            .await
            .map_err(listen)?;
        let address = server.local_addr().map_err(listen)?;
        let handle = server.start(methods(api));
        Ok(Self { address, handle })
    }

    /// Refuses new requests, and waits for those in flight.
    pub(crate) async fn stop(self, patience: Duration) {
        // An error means that it has stopped already.
        let _ = self.handle.stop();
        let _ = tokio::time::timeout(patience, self.handle.stopped()).await;
    }
}

fn methods(api: Arc<Api>) -> jsonrpsee::RpcModule<Api> {
    let mut registry = Registry::new(api);
    for register in [
        small::register,
        blocks::register,
        accounts::register,
        calls::register,
        fees::register,
        logs::register,
        changes::register,
        pool::register,
        debug::register,
        phalanx::register,
        wait::register,
        subscribe::register,
    ] {
        register(&mut registry);
    }
    registry.module
}

/// Permission for web pages of the named origins.
fn cors(limits: &RpcConfig) -> Result<Option<CorsLayer>, NodeError> {
    if limits.cors.is_empty() {
        return Ok(None);
    }
    let origins = if limits.cors.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        let parse = |origin: &String| {
            origin.parse().map_err(|_| NodeError::Setting(format!("{origin} is no origin of web pages")))
        };
        AllowOrigin::list(limits.cors.iter().map(parse).collect::<Result<Vec<_>, _>>()?)
    };
    Ok(Some(CorsLayer::new().allow_origin(origins).allow_methods(Any).allow_headers(Any)))
}
