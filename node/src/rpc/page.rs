//! Pages for operators on a port of their own: `/metrics` for Prometheus, `/health` for supervisors.

use crate::{chain::Chain, metrics::Metrics};
use http_body_util::Full;
use hyper::{Request, Response, StatusCode, body::Bytes, header, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
};

/// Maximum number of connections: a supervisor and some scrapers.
const MAX_CONNECTIONS: usize = 16;

/// Time that a client may take for its request.
const PATIENCE: Duration = Duration::from_secs(5);

/// Free bytes below which no block is written: those that the engine keeps free beside a block.
const LEAST_ROOM: u64 = 64 << 20;

/// Content of the pages.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) chain: Arc<Chain>,
    pub(crate) metrics: Arc<Metrics>,
    /// True while blocks are made, or the node is to make none.
    pub(crate) healthy: Arc<AtomicBool>,
}

impl Pages {
    /// Reason for which the node makes no progress, or will soon make none.
    fn fault(&self) -> Option<String> {
        if !self.healthy.load(Ordering::Relaxed) {
            return Some("there are no more blocks: see the log".into());
        }
        let free = self.chain.disk_room();
        if free < LEAST_ROOM {
            return Some(format!("the disk has {free} free bytes, and blocks need {LEAST_ROOM}"));
        }
        let stalled = self.metrics.stalled.load(Ordering::Relaxed);
        stalled.then(|| "the last try to make a block has failed: see the log".into())
    }

    fn answer(&self, path: &str) -> (StatusCode, &'static str, String) {
        match path {
            "/health" => {
                let why = self.fault();
                let status = if why.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                let mut page = json!({ "healthy": why.is_none(), "height": self.chain.height() });
                if let Some(why) = why {
                    page["why"] = why.into();
                }
                (status, "application/json", format!("{page}\n"))
            }
            "/metrics" => match self.chain.store.sizes() {
                Ok(sizes) => {
                    let service = &self.chain.service;
                    let pooled = (service.waiting(), service.recovered().bytes);
                    let page = self.metrics.page(pooled, &sizes, self.chain.disk_room());
                    (StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", page)
                }
                Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", format!("{error}\n")),
            },
            _ => (StatusCode::NOT_FOUND, "text/plain", "/health and /metrics are here\n".into()),
        }
    }
}

/// Serves the pages until the node stops.
pub(crate) async fn serve(listener: TcpListener, pages: Arc<Pages>, mut stopping: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        let Ok((stream, _)) = accepted else {
            // The system is out of handles, most likely.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let pages = Arc::clone(&pages);
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let pages = Arc::clone(&pages);
                async move {
                    let path = request.uri().path().to_owned();
                    // Sizes are read from disk.
                    let page = tokio::task::spawn_blocking(move || pages.answer(&path)).await;
                    let failed = (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", "the page panicked\n".into());
                    let (status, kind, page) = page.unwrap_or(failed);
                    let mut response = Response::new(Full::new(Bytes::from(page)));
                    *response.status_mut() = status;
                    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
                    Ok::<_, Infallible>(response)
                }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // A client that breaks off is its own affair.
            let _ = connection.await;
            drop(place);
        });
    }
}
