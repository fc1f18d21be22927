//! Registration of families of metrics, and their text.

use prometheus_client::{
    encoding::text::encode,
    metrics::{
        counter::Counter,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Metric, Registry, Unit},
};
use std::sync::atomic::AtomicU64;

/// A counter of seconds.
pub(super) type Seconds = Counter<f64, AtomicU64>;

/// Registers a metric.
pub(super) fn plain<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, what: &str) -> M {
    let metric = M::default();
    registry.register(name, what, metric.clone());
    metric
}

/// Registers a metric whose name ends in its unit.
pub(super) fn with_unit<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, what: &str, unit: Unit) -> M {
    let metric = M::default();
    registry.register_with_unit(name, what, unit, metric.clone());
    metric
}

/// Buckets of durations: from 50 µs to 26 s.
pub(super) fn durations() -> Histogram {
    Histogram::new(exponential_buckets(50e-6, 3.0, 13))
}

/// A number as a gauge has it.
pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Last line of a page.
pub(super) const END: &str = "# EOF\n";

/// Appends the families of a registry.
pub(super) fn append(page: &mut String, registry: &Registry) {
    // Writing to a string does not fail.
    let _ = encode(page, registry);
    if page.ends_with(END) {
        page.truncate(page.len() - END.len());
    }
}
