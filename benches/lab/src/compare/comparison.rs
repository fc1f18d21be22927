//! A comparison: its settings, its rows, and the expectations that do not hold.

use super::{
    samples::{Compared, Metric, Samples},
    stats::{Estimate, Method},
};
use crate::error::Usage;
use schemars::JsonSchema;
use serde::Serialize;
use std::str::FromStr;

/// Settings of a comparison, and as results have them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CompareConfig {
    /// Ratios from 1 ÷ (1 + floor) to 1 + floor are no difference.
    pub floor: f64,
    /// Resamplings behind each interval.
    pub resamples: usize,
    /// Seed of the resampling.
    pub seed: u64,
    /// Runs of each variant.
    pub pairs: usize,
    /// Flags that all variants share.
    pub common: String,
    /// Fields in which two files may differ.
    pub allow: Vec<String>,
    /// Ratios that must hold.
    #[serde(skip)]
    pub expect: Vec<Expectation>,
    /// Command that the result carries.
    #[serde(skip)]
    pub command: String,
}

impl CompareConfig {
    /// Refuses settings that no comparison could carry out.
    ///
    /// # Errors
    /// With the first such setting.
    pub fn check(&self) -> Result<(), Usage> {
        if !(0.0..1.0).contains(&self.floor) {
            return Err(Usage(format!("--floor must be at least 0 and below 1, not {}", self.floor)));
        }
        if !(100..=1_000_000).contains(&self.resamples) {
            return Err(Usage(format!("--resamples must be between 100 and 1000000, not {}", self.resamples)));
        }
        if !(1..=1000).contains(&self.pairs) {
            return Err(Usage(format!("--pairs must be between 1 and 1000, not {}", self.pairs)));
        }
        Ok(())
    }

    pub(super) const fn method(&self) -> Method {
        Method { resamples: self.resamples, seed: self.seed, floor: self.floor }
    }
}

/// A ratio of throughputs that must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    pub(super) candidate: String,
    pub(super) baseline: String,
    pub(super) at_least: f64,
}

impl FromStr for Expectation {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let parts = word.split_once(">=").and_then(|(ratio, least)| Some((ratio.split_once('/')?, least)));
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|least| least.is_finite() && *least > 0.0);
        match parts.and_then(|(names, least)| Some((names, number(least)?))) {
            Some(((candidate, baseline), at_least)) => {
                Ok(Self { candidate: candidate.trim().into(), baseline: baseline.trim().into(), at_least })
            }
            None => Err("expected X/Y>=N, as in C/A>=1.6".into()),
        }
    }
}

/// Result of a comparison.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) baseline: String,
    pub(super) candidate: String,
    pub(super) sides: [String; 2],
    pub(super) paired: bool,
    pub(super) runs: (usize, usize),
    pub(super) estimates: [Estimate; 2],
}

impl Row {
    pub(super) const fn throughput(&self) -> Estimate {
        self.estimates[0]
    }
}

/// Samples and comparisons.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) variants: Vec<Samples>,
    pub(super) compared: Vec<Compared>,
    /// True if the runs come from two files.
    pub(super) are_files: bool,
    /// True if the user stopped the comparison.
    pub(super) interrupted: bool,
    /// True if a file's benchmark was interrupted.
    pub(super) partial: bool,
}

impl Measured {
    /// Tags, as results name them.
    pub(super) fn tags(&self) -> Vec<&'static str> {
        let unsteady = self.variants.iter().any(|variant| variant.unsteady() > 0);
        let tags = [("interrupted", self.interrupted || self.partial), ("not-steady", unsteady)];
        tags.into_iter().filter(|(_, holds)| *holds).map(|(tag, _)| tag).collect()
    }

    /// Rows, one per comparison; none if the user stopped it before a round was complete.
    pub(super) fn rows(&self, method: &Method) -> Result<Vec<Row>, Usage> {
        let begun = |of: &&Compared| !(self.interrupted && of.baseline.samples.is_empty());
        self.compared.iter().filter(begun).map(|compared| row(compared, method)).collect()
    }
}

/// An expectation that does not hold.
#[derive(Debug)]
pub(super) struct Missed {
    pub(super) expected: Expectation,
    /// Name of the comparison, if the sides do not say it.
    pub(super) of: Option<String>,
    /// `None` if nothing was measured.
    pub(super) ratio: Option<f64>,
}

/// Refuses samples that have no ratio.
fn row(compared: &Compared, method: &Method) -> Result<Row, Usage> {
    let Compared { what, baseline, candidate, sides, paired } = compared;
    for samples in [baseline, candidate] {
        samples.samples.iter().try_for_each(|sample| sample.check(&samples.name))?;
    }
    let estimate = |metric: Metric| {
        let (theirs, ours) = (candidate.figures(metric), baseline.figures(metric));
        let estimate = if *paired {
            let ratios: Vec<f64> = theirs.iter().zip(&ours).map(|(candidate, baseline)| candidate / baseline).collect();
            method.paired(&ratios)
        } else {
            method.unpaired(&theirs, &ours)
        };
        estimate.ok_or_else(|| Usage(format!("{what}: there is no ratio of {theirs:?} to {ours:?}")))
    };
    Ok(Row {
        what: what.clone(),
        baseline: baseline.name.clone(),
        candidate: candidate.name.clone(),
        sides: sides.clone(),
        paired: *paired,
        runs: (candidate.samples.len(), baseline.samples.len()),
        estimates: [estimate(Metric::Throughput)?, estimate(Metric::Processor)?],
    })
}

/// Expectations that some measured ratio of throughputs does not meet.
pub(super) fn missed(expectations: &[Expectation], rows: &[Row]) -> Vec<Missed> {
    let mut missed = Vec::new();
    for expected in expectations {
        let names = [&expected.baseline, &expected.candidate];
        let ratio = |row: &Row| match row.sides.each_ref() {
            sides if sides == names => Some(row.throughput().ratio),
            [baseline, candidate] if [candidate, baseline] == names => Some(1.0 / row.throughput().ratio),
            _ => None,
        };
        let measured: Vec<(&Row, f64)> = rows.iter().filter_map(|row| Some((row, ratio(row)?))).collect();
        if measured.is_empty() {
            missed.push(Missed { expected: expected.clone(), of: None, ratio: None });
        }
        let below = measured.iter().filter(|(_, ratio)| *ratio < expected.at_least);
        missed.extend(below.map(|(row, ratio)| {
            // Names of variants are unique.
            let of = (!row.paired).then(|| row.what.clone());
            Missed { expected: expected.clone(), of, ratio: Some(*ratio) }
        }));
    }
    missed
}
