//! The paper's figures as sweeps and plots.

use super::{
    claim::Beside,
    evaluation::series,
    point::{Point, ms, name},
};
use crate::flags::word;
use clap::ValueEnum;
use phalanx_lab::{
    papers,
    report::svg::{Bar, Picture, Segment, lines_beside, stacked},
};
use phalanx_pipeline::Mode;
use phalanx_sim::zaptos::{Experiment, Report};

/// A figure of the paper's evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figure {
    /// Latency over throughput, 32 and 64 CPUs
    #[value(name = "5")]
    Five,
    /// Latency by stage, 32 CPUs
    #[value(name = "6")]
    Six,
    /// Latency by stage, 64 CPUs
    #[value(name = "7")]
    Seven,
    /// Latency with 1 and 3 of 10 leaders equivocating
    #[value(name = "8")]
    Eight,
}

/// Note of a figure whose numbers the paper only draws.
const NO_NUMBERS: &str = "No squares: the paper states no point of this figure; its text has peaks of about 8,000 and 3,500 tps with 1 and 3 of 10 \
                          faulty, and its gains 500 to 700 ms and 450 to 700 ms (Zaptos, section 6.3).";

/// The costs of a machine, fitted to the paper's baseline.
const fn machine(cpus: u32) -> Experiment {
    let paper = Experiment::paper();
    match cpus {
        64 => paper,
        // The same work on fewer cores: the paper's peak falls from 20,000 to 14,000.
        _ => Experiment { execute_ns_per_tx: 62_000, root_ns_per_tx: 28_000, block_txs: 2_400, ..paper },
    }
}

impl Figure {
    /// Experiments with their labels.
    pub(super) fn experiments(self, seed: u64, measured_us: u64) -> Vec<(String, Experiment)> {
        let at = |cpus: u32, tps: u64| {
            let label = format!("{cpus} CPUs, {} tps", tps);
            (label, Experiment { tps, seed, measured_us, ..machine(cpus) })
        };
        match self {
            Self::Five => {
                let small = [1_000, 5_000, 8_000, 10_000, 12_000, 14_000].map(|tps| at(32, tps));
                let large = [1_000, 5_000, 10_000, 15_000, 18_000, 20_000].map(|tps| at(64, tps));
                small.into_iter().chain(large).collect()
            }
            Self::Six => [1_000, 5_000, 10_000, 14_000].map(|tps| at(32, tps)).into(),
            Self::Seven => [1_000, 10_000, 15_000, 20_000].map(|tps| at(64, tps)).into(),
            Self::Eight => {
                // Few views succeed, so more time is measured; ten validators are quickly simulated.
                let measured_us = measured_us.saturating_mul(10).min(Experiment::MAX_MEASURED_US);
                let faulty = |equivocating, loads: &[u64]| {
                    let point = |tps: &u64| {
                        let (_, experiment) = at(32, *tps);
                        let label = format!("{equivocating} of 10 equivocate, {tps} tps");
                        (label, Experiment { validators: 10, fullnodes: 10, equivocating, measured_us, ..experiment })
                    };
                    loads.iter().map(point).collect::<Vec<_>>()
                };
                let one = faulty(1, &[1_000, 2_000, 4_000, 6_000, 7_000]);
                // With three, 2,140 per second are the maximum: beyond, latency grows with the measured time.
                one.into_iter().chain(faulty(3, &[500, 1_000, 1_500, 2_000])).collect()
            }
        }
    }

    /// Name of its numbers among those of the papers.
    fn paper(self) -> String {
        format!("zaptos-{}", word(self))
    }

    /// Name of its files, without extension.
    pub(super) fn file(self) -> String {
        format!("figure-{}", word(self))
    }

    /// Medians that the paper states of these points, beside ours.
    pub(super) fn beside(self, points: &[Point]) -> Vec<Beside> {
        let ours = |stated: &papers::Point| {
            let of = points.iter().flat_map(|point| point.reports.iter().map(move |report| (point, report)));
            // A series is a point and its mode, or many points of a machine.
            let is_it = |(point, report): &(&Point, &Report)| {
                let machine = point.label.split(',').next().unwrap_or_default();
                let series = [point.label.as_str(), machine].map(|label| format!("{label}, {}", name(report.mode)));
                point.experiment.tps as f64 == stated.x && series.contains(&stated.series)
            };
            of.filter(is_it).map(|(point, report)| (point.experiment.tps, ms(report.latency.p50))).next()
        };
        let pair = |stated: papers::Point| {
            let (tps, ours) = ours(&stated)?;
            let load = if stated.series.contains("tps") { String::new() } else { format!(", {tps} tps") };
            let agrees = Some((ours / stated.y - 1.0).abs() <= NEAR);
            Some(Beside { what: format!("{}{load}, ms", stated.series), paper: stated.y, sign: "", ours, agrees })
        };
        papers::points(&self.paper()).into_iter().filter_map(pair).collect()
    }

    pub(super) fn plot(self, points: &[Point]) -> Picture {
        match self {
            Self::Five => curves("Latency over throughput (Zaptos, Figure 5)", &self.paper(), points),
            Self::Six => breakdown("Latency by stage, 32 CPUs (Zaptos, Figure 6)", &self.paper(), points),
            Self::Seven => breakdown("Latency by stage, 64 CPUs (Zaptos, Figure 7)", &self.paper(), points),
            Self::Eight => curves("Latency with equivocating leaders (Zaptos, Figure 8)", &self.paper(), points),
        }
    }
}

/// Relative distance within which a median is the paper's.
const NEAR: f64 = 0.1;

/// A line per series and mode, with the numbers that the paper states as `paper`; a series is what stands before the comma of a
/// label.
fn curves(title: &str, paper: &str, points: &[Point]) -> Picture {
    let of = points.iter().flat_map(|point| {
        let series = point.label.split(',').next().unwrap_or_default();
        let line = |report: &Report| (report.tps, ms(report.latency.p50));
        point.reports.iter().map(move |report| (format!("{series}, {}", name(report.mode)), vec![line(report)]))
    });
    let (groups, drawn) = series(of);
    let marks = papers::published(paper, |series| groups.iter().any(|group| group == series));
    let picture = lines_beside([title, "median latency, ms", "transactions per second"], &groups, &drawn, &marks);
    if marks.is_empty() { picture.noted(NO_NUMBERS) } else { picture }
}

/// A bar per point and mode, with the total that the paper states as `paper` in brackets.
pub(super) fn breakdown(title: &str, paper: &str, points: &[Point]) -> Picture {
    let title = if title.is_empty() { "Latency by stage" } else { title };
    let stated = papers::points(paper);
    let bars: Vec<Bar> = points
        .iter()
        .flat_map(|point| {
            point.reports.iter().map(|report| {
                let comma = if point.label.is_empty() { "" } else { ", " };
                let label = format!("{}{comma}{}", point.label, name(report.mode));
                let theirs = stated.iter().find(|stated| stated.series == label);
                let theirs = theirs.map_or_else(String::new, |stated| format!(" ({:.0})", stated.y));
                Bar { label, total: format!("{:.0} ms{theirs}", ms(report.latency.p50)), segments: segments(report) }
            })
        })
        .collect();
    let subtitle = match stated.is_empty() {
        true => "mean waiting time of a client by stage, in order; total: the median",
        false => {
            "mean waiting time of a client by stage, in order; total: the median, and in brackets the paper's, where its text has one"
        }
    };
    stacked(title, subtitle, "milliseconds", &bars)
}

/// Stages that a client waits for, in sequence. Stages hidden behind consensus have no length.
fn segments(report: &Report) -> Vec<Segment> {
    let us = |names: &[&str]| {
        let of = report.stages.iter().filter(|stage| names.contains(&stage.name));
        of.map(|stage| stage.wait_us + stage.work_us).sum::<u64>()
    };
    let consensus = [
        ("batch queue", us(&["batch_queue"])),
        ("broadcast", us(&["broadcast"])),
        ("block queue", us(&["block_queue"])),
        ("ordering", us(&["order"])),
    ];
    // Baseline stages follow each other; in optimistic mode a client waits only for the rest after the order.
    let after = match report.mode {
        Mode::Baseline => vec![
            ("execution", us(&["prepare", "execute", "merkleize"])),
            ("certification", us(&["certify"])),
            ("commit", us(&["stage", "commit"])),
            ("fullnode", us(&["fullnode_execute", "fullnode_commit"])),
        ],
        Mode::Optimistic => vec![("not hidden", report.rest_us)],
    };
    let colour = |name: &str| {
        let names =
            ["batch queue", "broadcast", "block queue", "ordering", "execution", "certification", "commit", "fullnode"];
        names.iter().position(|known| *known == name).unwrap_or(8)
    };
    consensus.into_iter().chain(after).map(|(name, us)| Segment { name, value: ms(us), colour: colour(name) }).collect()
}
