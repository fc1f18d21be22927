//! Output of a comparison.

use super::{
    comparison::{CompareConfig, Measured, Missed, Row},
    samples::{Metric, Samples},
    stats::Estimate,
};
use crate::{
    head::Head,
    written::{self, Named},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The output.
#[derive(Serialize, JsonSchema)]
struct Written<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// Flags as resolved.
    config: &'a CompareConfig,
    /// Runs of each variant.
    variants: &'a [Samples],
    /// Ratios of both metrics, by pair of variants.
    comparisons: Vec<Comparison<'a>>,
    /// Expectations that do not hold.
    missed: Vec<Unmet<'a>>,
    /// Tags: `interrupted`, `not-steady`.
    tags: Vec<&'a str>,
}

/// A ratio of two variants.
#[derive(Serialize, JsonSchema)]
struct Comparison<'a> {
    /// Name of the comparison.
    what: &'a str,
    /// Variant above the line.
    candidate: &'a str,
    /// Variant below the line.
    baseline: &'a str,
    /// `tps` or `us_core_per_tx`.
    metric: &'a str,
    /// Runs of the baseline and of the candidate.
    runs: [usize; 2],
    #[serde(flatten)]
    estimate: Estimate,
}

impl<'a> Comparison<'a> {
    fn new(row: &'a Row, metric: Metric, estimate: Estimate) -> Self {
        Self {
            what: &row.what,
            candidate: &row.candidate,
            baseline: &row.baseline,
            metric: metric.name(),
            runs: [row.runs.0, row.runs.1],
            estimate,
        }
    }
}

/// An expectation that does not hold.
#[derive(Serialize, JsonSchema)]
struct Unmet<'a> {
    /// The two sides, as `B/A`.
    what: String,
    /// Name of the comparison, if the sides do not say it.
    of: Option<&'a str>,
    /// Least ratio that was expected.
    at_least: f64,
    /// Ratio that was measured. Null if nothing was.
    ratio: Option<f64>,
}

impl<'a> From<&'a Missed> for Unmet<'a> {
    fn from(Missed { expected, of, ratio }: &'a Missed) -> Self {
        let what = format!("{}/{}", expected.candidate, expected.baseline);
        Self { what, of: of.as_deref(), at_least: expected.at_least, ratio: *ratio }
    }
}

/// Schema of what is written.
pub(crate) fn schema() -> Named {
    written::schema::<Written<'_>>("bench-compare", "bench compare --json")
}

pub(super) fn value(config: &CompareConfig, measured: &Measured, rows: &[Row], missed: &[Missed]) -> Value {
    let comparisons = rows.iter().flat_map(|row| Metric::ALL.into_iter().zip(row.estimates).map(move |of| (row, of)));
    written::value(&Written {
        head: Head::here(None, &config.command),
        config,
        variants: &measured.variants,
        comparisons: comparisons.map(|(row, (metric, estimate))| Comparison::new(row, metric, estimate)).collect(),
        missed: missed.iter().map(Unmet::from).collect(),
        tags: measured.tags(),
    })
}
