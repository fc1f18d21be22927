//! One simulated experiment, and the units that its figures are shown in.

use phalanx_pipeline::Mode;
use phalanx_sim::zaptos::{Experiment, Report};

/// A point: an experiment and what it showed in each mode.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) label: String,
    pub(crate) experiment: Experiment,
    pub(crate) reports: Vec<Report>,
}

/// The word for a mode.
pub(crate) const fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Baseline => "baseline",
        Mode::Optimistic => "optimistic",
    }
}

/// Microseconds as milliseconds.
pub(crate) fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}
