//! Calls of CometBFT.

use super::families::{durations, plain};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};
use std::time::Duration;

/// Label of a call of CometBFT.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCall {
    call: &'static str,
}

/// Counters of CometBFT's calls.
pub(crate) struct Abci {
    calls: Family<OfCall, Counter>,
    failed: Family<OfCall, Counter>,
    seconds: Family<OfCall, Histogram>,
    pub(crate) rejected_proposals: Counter,
}

impl Abci {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let seconds = Family::<OfCall, Histogram>::new_with_constructor(durations);
        let what = "Time of calls of CometBFT, waiting included";
        registry.register_with_unit("abci_call", what, Unit::Seconds, seconds.clone());
        Self {
            calls: plain(registry, "abci_calls", "Answered calls of CometBFT"),
            failed: plain(registry, "abci_failed_calls", "Calls of CometBFT that were refused"),
            seconds,
            rejected_proposals: plain(
                registry,
                "abci_rejected_proposals",
                "Proposals of other validators that break a rule",
            ),
        }
    }

    /// Counts a call of CometBFT.
    pub(crate) fn call(&self, call: &'static str, failed: bool, took: Duration) {
        let label = OfCall { call };
        let family = if failed { &self.failed } else { &self.calls };
        family.get_or_create(&label).inc();
        self.seconds.get_or_create(&label).observe(took.as_secs_f64());
    }
}
