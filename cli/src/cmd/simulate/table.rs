//! Tables of simulated latencies.

use super::point::{Point, ms, name};
use phalanx_lab::report::text::wrapped;
use phalanx_pipeline::Mode;
use phalanx_sim::zaptos::{Experiment, Report};
use std::fmt::Write as _;

/// Table of an experiment: figures, stages, gain.
pub(super) fn one(point: &Point) -> String {
    let mut text = many(core::slice::from_ref(point));
    text.push_str("\nms, mean      ");
    for report in &point.reports {
        let _ = write!(text, "{:>12} wait{:>7} work", name(report.mode), "");
    }
    text.push('\n');
    let stages = point.reports.first().map(|report| report.stages.as_slice()).unwrap_or_default();
    for (row, stage) in stages.iter().enumerate() {
        let _ = write!(text, "{:17}", stage.name);
        for report in &point.reports {
            if let Some(stage) = report.stages.get(row) {
                let _ = write!(text, "{:>14.1}{:>14.1}", ms(stage.wait_us), ms(stage.work_us));
            }
        }
        text.push('\n');
    }
    if point.experiment.ideal {
        for report in &point.reports {
            let formula = point.experiment.formula(report.mode, report.consensus_us);
            let _ = writeln!(
                text,
                "\n{}: {:.3} ms, and the closed formula says {:.3} ms",
                name(report.mode),
                ms(report.latency.p50),
                ms(formula)
            );
        }
    }
    text
}

/// A line per experiment and mode.
pub(super) fn many(points: &[Point]) -> String {
    let width = points.iter().map(|point| point.label.len()).max().unwrap_or(0);
    let mut text = format!(
        "{:width$} {:>10} {:>9} {:>8} {:>8} {:>8} {:>8} {:>10} {:>8} {:>9} {:>7} {:>6}\n",
        "", "", "tps", "p25", "p50", "p75", "p99", "consensus", "rest", "shadowed", "wasted", "gain"
    );
    for point in points {
        let baseline = point.reports.iter().find(|report| report.mode == Mode::Baseline);
        for report in &point.reports {
            let q = report.latency;
            let _ = writeln!(
                text,
                "{:width$} {:>10} {:>9.0} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>10.1} {:>8.1} {:>8.0}% {:>6.1}% {:>6}",
                point.label,
                name(report.mode),
                report.tps,
                ms(q.p25),
                ms(q.p50),
                ms(q.p75),
                ms(q.p99),
                ms(report.consensus_us),
                ms(report.rest_us),
                report.shadowed * 100.0,
                report.wasted * 100.0,
                gain(report, baseline),
            );
        }
    }
    text.push_str(COLUMNS);
    text
}

/// Settings of a simulation, for all points together: a setting in which they differ has each of its values.
pub(super) fn setting(points: &[Point], measured: bool) -> String {
    let each = |of: &dyn Fn(&Experiment) -> String| {
        let mut values: Vec<String> = Vec::new();
        for value in points.iter().map(|point| of(&point.experiment)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values.join(" or ")
    };
    // A thousandth, of ns or of µs.
    let us = |thousands: u64| ms(thousands).to_string();
    let (validators, fullnodes) = (each(&|of| of.validators.to_string()), each(&|of| of.fullnodes.to_string()));
    let faulty = match each(&|of| of.equivocating.to_string()) {
        none if none == "0" => String::new(),
        some => format!(", {some} of them equivocating"),
    };
    let topology = each(&|of| of.topology.to_string());
    let (txs, every) = (each(&|of| of.block_txs.to_string()), each(&|of| us(of.block_us)));
    let mut text = format!(
        "Simulated: {validators} validators{faulty} and {fullnodes} fullnodes, {topology}; a block of at most {txs} transactions \
         every {every} ms; "
    );
    if measured {
        text.push_str("execution, roots and writes as measured here; ");
    } else {
        let (execute, root) = (each(&|of| us(of.execute_ns_per_tx)), each(&|of| us(of.root_ns_per_tx)));
        let (block, tx) = (each(&|of| us(of.commit_us)), each(&|of| us(of.commit_ns_per_tx)));
        let _ = write!(
            text,
            "execution {execute} µs and root {root} µs per transaction, writing {block} ms per block and {tx} µs per transaction; "
        );
    }
    let seconds = each(&|of| (of.measured_us / 1_000_000).to_string());
    let seed = each(&|of| of.seed.to_string());
    let time = if points.iter().any(|point| point.experiment.ideal) {
        "no queues, as the closed formulas assume".to_owned()
    } else {
        format!("{seconds} s of virtual time")
    };
    let _ = write!(text, "{time}, seed {seed}.");
    format!("\n{}\n", wrapped(&text, 120).join("\n"))
}

/// Words on the columns whose names do not say enough.
const COLUMNS: &str = "
p25 to p99, consensus and rest are latencies in ms. consensus: mean time to order a block. rest: mean latency outside of
that. shadowed: share of the other stages that lies between proposal and order. wasted: share of the executors' time that
went into blocks that lost. gain: reduction of the median against the baseline.
";

/// Reduction of the median against the baseline.
fn gain(report: &Report, baseline: Option<&Report>) -> String {
    match baseline {
        Some(baseline) if report.mode == Mode::Optimistic && baseline.latency.p50 > 0 => {
            let share = 1.0 - report.latency.p50 as f64 / baseline.latency.p50 as f64;
            format!("{:.0}%", share * 100.0)
        }
        _ => String::new(),
    }
}

/// A row per experiment and mode.
pub(super) fn csv(points: &[Point]) -> String {
    let mut text =
        "label,validators,offered_tps,equivocating,mode,tps,p25_ms,p50_ms,p75_ms,p99_ms,consensus_ms,rest_ms,\
                    shadowed_share,wasted_execution_share\n"
            .to_owned();
    for point in points {
        for report in &point.reports {
            let q = report.latency;
            let _ = writeln!(
                text,
                "\"{}\",{},{},{},{},{:.1},{},{},{},{},{},{},{:.4},{:.4}",
                point.label,
                point.experiment.validators,
                point.experiment.tps,
                point.experiment.equivocating,
                name(report.mode),
                report.tps,
                ms(q.p25),
                ms(q.p50),
                ms(q.p75),
                ms(q.p99),
                ms(report.consensus_us),
                ms(report.rest_us),
                report.shadowed,
                report.wasted,
            );
        }
    }
    text
}
