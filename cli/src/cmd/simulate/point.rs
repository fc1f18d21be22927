//! A simulated experiment, and the units of its figures.

use phalanx_pipeline::Mode;
use phalanx_sim::zaptos::{Experiment, Report};

/// An experiment and its reports by mode.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) label: String,
    pub(crate) experiment: Experiment,
    pub(crate) reports: Vec<Report>,
}

/// Name of a mode.
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
