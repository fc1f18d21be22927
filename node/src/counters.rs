//! Counters and gauges that libraries keep through the `metrics` facade, such as the store's, for `/metrics`.

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use parking_lot::RwLock;
use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// Maximum number of series: the facade's users name a few dozen, and no peer or client names any.
const MAX_SERIES: usize = 512;

/// Series by name and labels. Every count looks its series up.
type Series = RwLock<HashMap<Key, Arc<AtomicU64>>>;

/// Counters and gauges of the process.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    counters: Series,
    /// As the bits of a floating-point number.
    gauges: Series,
}

/// Counters of the process, once a node has been started.
static OF_PROCESS: OnceLock<&'static Counters> = OnceLock::new();

impl Counters {
    /// Counters of the process. A program that has installed a recorder of its own has the counts there, and none are here.
    pub(crate) fn install() -> &'static Self {
        OF_PROCESS.get_or_init(|| {
            let counters: &'static Self = Box::leak(Box::default());
            if metrics::set_global_recorder(counters).is_err() {
                tracing::debug!("the program has a recorder of its own: /metrics lacks the store's counters");
            }
            counters
        })
    }

    /// All series in the text format of OpenMetrics.
    pub(crate) fn write(&self, page: &mut String) {
        for (series, kind) in [(&self.counters, "counter"), (&self.gauges, "gauge")] {
            let mut all: Vec<(String, String, u64)> = series
                .read()
                .iter()
                .map(|(key, value)| (key.name().to_owned(), labels(key), value.load(Ordering::Relaxed)))
                .collect();
            all.sort_unstable();
            let mut last = String::new();
            for (name, labels, bits) in all {
                // The name of a family is without the suffix of its counts.
                let (family, suffix) =
                    if kind == "counter" { (name.trim_end_matches("_total"), "_total") } else { (&name[..], "") };
                if last != name {
                    // Writing to a string does not fail.
                    let _ = writeln!(page, "# TYPE {family} {kind}");
                    last.clone_from(&name);
                }
                let _ = match kind {
                    "counter" => writeln!(page, "{family}{suffix}{labels} {bits}"),
                    _ => writeln!(page, "{family}{suffix}{labels} {}", f64::from_bits(bits)),
                };
            }
        }
    }
}

/// Labels of a series, as they are written.
fn labels(key: &Key) -> String {
    let labels: Vec<String> = key.labels().map(|label| format!("{}={:?}", label.key(), label.value())).collect();
    if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
}

/// The cell of a series; `None` if there are too many.
fn cell(series: &Series, key: &Key) -> Option<Arc<AtomicU64>> {
    if let Some(cell) = series.read().get(key) {
        return Some(Arc::clone(cell));
    }
    let mut series = series.write();
    let has_room = series.len() < MAX_SERIES || series.contains_key(key);
    has_room.then(|| Arc::clone(series.entry(key.clone()).or_default()))
}

impl Recorder for &'static Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        cell(&self.counters, key).map_or_else(Counter::noop, Counter::from_arc)
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        cell(&self.gauges, key).map_or_else(Gauge::noop, Gauge::from_arc)
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_written_by_family() {
        let counters: &'static Counters = Box::leak(Box::default());
        metrics::with_local_recorder(&counters, || {
            metrics::counter!("x_written_total", "kind" => "a").increment(3);
            metrics::counter!("x_written_total", "kind" => "b").increment(1);
            metrics::counter!("x_written_total", "kind" => "a").increment(1);
            metrics::gauge!("x_height").set(7.0);
            metrics::histogram!("x_times").record(1.0);
            (0..2 * MAX_SERIES).for_each(|n| metrics::gauge!(format!("y{n:04}")).set(1.0));
        });
        let mut page = String::new();
        counters.write(&mut page);
        let begin = "# TYPE x_written counter\nx_written_total{kind=\"a\"} 4\nx_written_total{kind=\"b\"} 1\n# TYPE x_height gauge\nx_height 7\n";
        assert!(page.starts_with(begin), "{page}");
        assert_eq!(page.lines().count(), 3 + 2 * MAX_SERIES, "a bounded number");
    }
}
