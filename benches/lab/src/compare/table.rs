//! A comparison as text.

use super::{
    comparison::{CompareConfig, Expectation, Measured, Missed, Row},
    samples::{Metric, Samples},
    stats::{Estimate, Verdict},
};
use crate::report::text;

/// Medians, ratios, and what was missed.
pub(super) fn text(config: &CompareConfig, measured: &Measured, rows: &[Row], missed: &[Missed]) -> String {
    let variants = &measured.variants;
    let width = variants.iter().map(|v| v.name.chars().count()).chain(rows.iter().map(|r| r.what.chars().count()));
    let width = width.max().unwrap_or(0).max(12);
    let mut out = format!("{:width$} {:>5} {:>14} {:>14}  oracle\n", "", "runs", "TPS, median", "µs·core per tx");
    for variant in variants {
        let (tps, cpu) = (variant.median(Metric::Throughput), variant.median(Metric::Processor));
        let oracle = variant.samples.first().map_or(text::NONE, |sample| sample.oracle.as_str());
        let (name, runs) = (&variant.name, variant.samples.len());
        out.push_str(&format!(
            "{name:width$} {runs:>5} {:>14} {:>14}  {oracle}\n",
            text::count(tps),
            text::figure(cpu)
        ));
    }
    let ninety_five = "95 % interval";
    out.push_str(&format!("\n{:width$} {:>7}  {ninety_five:18} verdict\n", "throughput", "ratio"));
    rows.iter().for_each(|row| line(&mut out, width, row, row.estimates[0], Metric::Throughput));
    out.push_str(&format!("\n{:width$} {:>7}  {ninety_five:18} verdict\n", "µs·core/tx", "ratio"));
    rows.iter().for_each(|row| line(&mut out, width, row, row.estimates[1], Metric::Processor));
    for Missed { expected, of, ratio } in missed {
        let Expectation { candidate, baseline, at_least } = expected;
        let found = ratio.map_or_else(|| "not measured".to_owned(), |ratio| format!("{ratio:.3}"));
        let of = of.as_ref().map_or_else(String::new, |of| format!(" of {of}"));
        out.push_str(&format!(
            "\nMISSED: {candidate}/{baseline} of throughput{of} is {found}, expected at least {at_least}\n"
        ));
    }
    let roots: Vec<_> = variants.iter().filter_map(|v| v.samples.first()).map(|s| &s.state_root).collect();
    if !measured.are_files && roots.len() > 1 {
        let same = roots.iter().all(|root| *root == roots[0]);
        out.push_str(if same {
            "\nAll variants end in one state.\n"
        } else {
            "\nThe variants end in different states.\n"
        });
    }
    out.push_str(&format!(
        "Floor {} %, {} resamplings, seed {}.\n",
        text::figure(config.floor * 100.0),
        config.resamples,
        config.seed
    ));
    if rows.iter().any(|row| row.runs.0.min(row.runs.1) < 6) {
        out.push_str("Fewer than six runs: the intervals are too narrow.\n");
    }
    out.extend(variants.iter().filter_map(pinned));
    out.extend(unsteady(variants));
    if measured.tags().contains(&"interrupted") {
        out.push_str("(interrupted)\n");
    }
    out
}

/// Line with the cores of a variant's workers, if they were pinned.
fn pinned(variant: &Samples) -> Option<String> {
    let cores = variant.samples.first().map(|sample| text::pinned(&sample.pinned))?;
    cores.strip_prefix("; ").map(|cores| format!("{}: {cores}.\n", variant.name))
}

/// Line with the variants that were not steady, if there are some.
pub(super) fn unsteady(variants: &[Samples]) -> Option<String> {
    let told = variants.iter().filter(|variant| variant.unsteady() > 0).map(|variant| {
        let (name, runs, all) = (&variant.name, variant.unsteady(), variant.samples.len());
        format!("{name} in {runs} of {all} runs")
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("NOT STEADY, the rate still drifted: {}.\n", told.join(", ")))
}

fn line(out: &mut String, width: usize, row: &Row, estimate: Estimate, metric: Metric) {
    let interval = match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => format!("{low:.3} to {high:.3}"),
        _ => text::NONE.to_owned(),
    };
    let verdict = match (estimate.verdict, metric) {
        (Verdict::Higher, Metric::Throughput) => "faster",
        (Verdict::Lower, Metric::Throughput) => "slower",
        (Verdict::Higher, Metric::Processor) => "costs more",
        (Verdict::Lower, Metric::Processor) => "costs less",
        (Verdict::NoDifference, _) => "no difference",
        (Verdict::Undecided, _) => "undecided: more runs would tell",
        (Verdict::SingleRun, _) => "a single run has no interval",
    };
    out.push_str(&format!("{:width$} {:>7.3}  {interval:18} {verdict}\n", row.what, estimate.ratio));
}
