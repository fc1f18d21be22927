//! Samples of one variant.

use crate::{
    error::Usage,
    result::{Run, Throughput},
};
use schemars::JsonSchema;
use serde::Serialize;

/// Figures of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Sample {
    /// Round, from zero, of runs beside each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) round: Option<usize>,
    /// Succeeded transactions per second.
    pub(super) tps: f64,
    /// Processor time of the process ÷ succeeded transactions, in µs.
    pub(super) us_core_per_tx: f64,
    /// Root after the last block.
    pub(super) state_root: String,
    /// `match`, `sampled` or `off`.
    pub(super) oracle: String,
    /// Core of each worker, if they are pinned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) pinned: Vec<usize>,
    /// True if its rate was steady, `None` if that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) steady: Option<bool>,
}

impl Sample {
    /// Sample of a run with right results.
    pub fn new(run: &Run, throughput: &Throughput, round: Option<usize>) -> Self {
        Self {
            round,
            tps: throughput.tps,
            us_core_per_tx: run.cpu.us_core_per_tx,
            state_root: run.integrity.state_root.clone(),
            oracle: run.integrity.oracle.clone(),
            pinned: run.pinned.clone(),
            steady: run.steady.and_then(|steady| steady.steady),
        }
    }

    /// Refuses a sample of `name` with a figure that has no ratio to another.
    ///
    /// # Errors
    /// If a figure is not finite and positive.
    pub fn check(&self, name: &str) -> Result<(), Usage> {
        let unsound = Metric::ALL.into_iter().find(|metric| {
            let figure = metric.of(self);
            !(figure.is_finite() && figure > 0.0)
        });
        let round = self.round.map_or_else(String::new, |round| format!(", round {}", round + 1));
        unsound.map_or(Ok(()), |metric| {
            let (figure, metric_name) = (metric.of(self), metric.name());
            Err(Usage(format!("{name}{round}: {metric_name} is {figure}, which has no ratio")))
        })
    }
}

/// All runs of a variant, in order.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Samples {
    /// Name of the variant, or the file.
    pub(super) name: String,
    /// Runs in order.
    pub(super) samples: Vec<Sample>,
}

/// A figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    Throughput,
    Processor,
}

impl Metric {
    pub(super) const ALL: [Self; 2] = [Self::Throughput, Self::Processor];

    /// Name in results.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "tps",
            Self::Processor => "us_core_per_tx",
        }
    }

    pub(super) const fn of(self, sample: &Sample) -> f64 {
        match self {
            Self::Throughput => sample.tps,
            Self::Processor => sample.us_core_per_tx,
        }
    }
}

impl Samples {
    pub(super) fn figures(&self, metric: Metric) -> Vec<f64> {
        self.samples.iter().map(|sample| metric.of(sample)).collect()
    }

    /// Number of runs whose rate still had a trend.
    pub(super) fn unsteady(&self) -> usize {
        self.samples.iter().filter(|sample| sample.steady == Some(false)).count()
    }

    pub(super) fn median(&self, metric: Metric) -> f64 {
        let mut sorted = self.figures(metric);
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => f64::NAN,
            n if n.is_multiple_of(2) => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
            n => sorted[n / 2],
        }
    }
}

/// Two variants whose ratio is wanted.
#[derive(Clone, Debug)]
pub(super) struct Compared {
    /// Name of the comparison.
    pub(super) what: String,
    pub(super) baseline: Samples,
    pub(super) candidate: Samples,
    /// Names of the two in expectations.
    pub(super) sides: [String; 2],
    /// True if run *i* of one was beside run *i* of the other.
    pub(super) paired: bool,
}
