//! Requests and connections of JSON-RPC.

use super::families::{durations, number, plain, with_unit};
use crate::edge::{Cut, Pool};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Label of a JSON-RPC method.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    method: &'static str,
}

/// Label of a connection that the node has closed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// Counters of JSON-RPC.
pub(crate) struct Rpc {
    requests: Family<Method, Counter>,
    errors: Family<Method, Counter>,
    request_seconds: Family<Method, Histogram>,
    connections: Gauge,
    refused: Counter,
    cut: Family<Reason, Counter>,
    request_bytes: Gauge,
    answer_bytes: Gauge,
    pools: OnceLock<[Arc<Pool>; 2]>,
}

impl Rpc {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let request_seconds = Family::<Method, Histogram>::new_with_constructor(durations);
        let what = "Time of JSON-RPC requests, waiting included";
        registry.register_with_unit("rpc_request", what, Unit::Seconds, request_seconds.clone());
        let rpc = Self {
            requests: plain(registry, "rpc_requests", "Answered JSON-RPC requests"),
            errors: plain(registry, "rpc_errors", "JSON-RPC requests answered with an error"),
            request_seconds,
            connections: plain(registry, "rpc_connections", "Open connections of JSON-RPC"),
            refused: plain(registry, "rpc_connections_refused", "Connections of JSON-RPC that found no place"),
            cut: plain(
                registry,
                "rpc_connections_closed",
                "Connections of JSON-RPC that the node closed because of a limit",
            ),
            request_bytes: with_unit(
                registry,
                "rpc_requests_in_flight",
                "Size of requests in flight, beyond what every connection may hold",
                Unit::Bytes,
            ),
            answer_bytes: with_unit(
                registry,
                "rpc_answers_in_flight",
                "Size of answers and notifications in flight, beyond what every connection may hold",
                Unit::Bytes,
            ),
            pools: OnceLock::new(),
        };
        for reason in Cut::ALL.map(Cut::name) {
            // Counters that begin at zero are on the page from the start.
            drop(rpc.cut.get_or_create(&Reason { reason }));
        }
        rpc
    }

    /// Counts a request.
    pub(crate) fn request(&self, method: &'static str, failed: bool, took: Duration) {
        let label = Method { method };
        self.requests.get_or_create(&label).inc();
        if failed {
            self.errors.get_or_create(&label).inc();
        }
        self.request_seconds.get_or_create(&label).observe(took.as_secs_f64());
    }

    /// Counts an open connection.
    pub(crate) fn connected(&self) {
        self.connections.inc();
    }

    /// Counts the end of a connection, with the reason for which the node has closed it.
    pub(crate) fn disconnected(&self, cut: Option<Cut>) {
        self.connections.dec();
        if let Some(cut) = cut {
            self.cut.get_or_create(&Reason { reason: cut.name() }).inc();
        }
    }

    /// Counts a connection that found no place.
    pub(crate) fn refused(&self) {
        self.refused.inc();
    }

    /// Takes the pools whose bytes the page shows: of requests, and of answers.
    pub(crate) fn of_pools(&self, requests: &Arc<Pool>, answers: &Arc<Pool>) {
        // Those of the public server, which starts before that of a consensus client.
        let _ = self.pools.set([Arc::clone(requests), Arc::clone(answers)]);
    }

    /// Sets the bytes in flight as they are now.
    pub(super) fn measure(&self) {
        if let Some([requests, answers]) = self.pools.get() {
            self.request_bytes.set(number(requests.used() as u64));
            self.answer_bytes.set(number(answers.used() as u64));
        }
    }
}
