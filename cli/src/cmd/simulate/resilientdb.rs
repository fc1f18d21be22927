//! `simulate resilientdb`: throughput and latency by the threads of replicas, in virtual time. Two runs print the same bytes.

use super::{
    claim::{Beside, agreement, virtual_time},
    parallel,
    written::{Compared, Figure as Drawn, Figures, ResilientdbPoint, Threads, trace},
};
use crate::{exit, output, ui};
use clap::{Args, ValueEnum};
use phalanx_lab::{
    report::{
        Gallery,
        svg::{Bar, Line, Picture, Segment, lines, stacked},
    },
    result::SCHEMA,
    ui::Ui,
    written::value,
};
use phalanx_sim::{
    load::{Outcome, Utilisation, run},
    resilientdb::{Comparison, Figure, Point, Rule},
};
use serde_json::Value;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// A figure of the paper's evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FigureName {
    /// PBFT in a deep pipeline, Zyzzyva on one thread
    #[value(name = "1")]
    One,
    /// Upper bound without consensus
    #[value(name = "7")]
    Seven,
    /// Threads and replicas
    #[value(name = "8")]
    Eight,
    /// Utilisation of threads
    #[value(name = "9")]
    Nine,
    /// Transactions per batch
    #[value(name = "10")]
    Ten,
    /// Operations per transaction
    #[value(name = "11")]
    Eleven,
    /// Length of proposals
    #[value(name = "12")]
    Twelve,
    /// Signatures
    #[value(name = "13")]
    Thirteen,
    /// Memory or SQLite
    #[value(name = "14")]
    Fourteen,
    /// Clients
    #[value(name = "15")]
    Fifteen,
    /// Cores
    #[value(name = "16")]
    Sixteen,
    /// Failed backups
    #[value(name = "17")]
    Seventeen,
    /// Out-of-order slots and decoupled execution, two numbers of the text
    Text,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ResilientdbArgs {
    /// Figure to sweep, at the paper's settings; repeatable
    #[arg(long = "figure", value_enum, required = true)]
    figures: Vec<FigureName>,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
    /// Folder for plots and a CSV file of their points
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// A swept figure.
struct Swept {
    figure: Figure,
    points: Vec<Point>,
    outcomes: Vec<Outcome>,
}

impl ResilientdbArgs {
    /// Sweeps the figures and shows them.
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let ui = ui::immediate();
        let mut swept = Vec::new();
        for name in &self.figures {
            swept.push(sweep(Figure::ALL[*name as usize], &ui)?);
        }
        match &self.json {
            Some(path) if path == Path::new("-") => output::json(path, &to_json(&swept))?,
            path => {
                output::print(&tables(&swept))?;
                path.as_ref().map_or(Ok(()), |path| output::json(path, &to_json(&swept)))?;
            }
        }
        self.write_plots(&swept)?;
        Ok(exit::OK)
    }

    fn write_plots(&self, swept: &[Swept]) -> anyhow::Result<()> {
        let Some(dir) = &self.report else { return Ok(()) };
        let names = self.figures.iter().map(|name| crate::flags::word(*name));
        let plots = names.zip(swept).flat_map(|(name, swept)| {
            let plots =
                [("throughput", plot(swept, false)), ("latency", plot(swept, true)), ("compared", beside(swept))];
            plots.map(|(kind, plot)| (format!("figure-{name}-{kind}"), plot))
        });
        let (pictures, command) = (plots.collect::<Vec<_>>(), output::command());
        let rows = Some(("points.csv", csv(swept)));
        let compared = swept.iter().flat_map(|swept| swept.figure.compare(&swept.outcomes));
        let judged = compared.map(|of| {
            let agrees = (!matches!(of.rule, Rule::Fitted | Rule::Input)).then(|| of.agrees());
            Beside { what: of.what.into(), paper: of.paper, sign: sign(of.rule), ours: of.ours, agrees }
        });
        let (claim, doubts) = agreement("ResilientDB, simulated", judged);
        let claim = virtual_time(&claim, &pictures);
        let gallery = Gallery {
            title: "ResilientDB, simulated",
            claim: Some(claim),
            doubts,
            table: &tables(swept),
            pictures,
            rows,
            command: &command,
        };
        output::gallery(dir, &gallery, self.json.as_deref() == Some(Path::new("-")))
    }
}

/// Tables of all figures.
fn tables(swept: &[Swept]) -> String {
    swept.iter().map(table).collect::<Vec<_>>().join("\n")
}

/// Runs all points of a figure, side by side.
fn sweep(figure: Figure, ui: &Ui) -> anyhow::Result<Swept> {
    let points = figure.points();
    let title = |point: &Point| format!("{}, {} {}", figure.title().0, point.series, point.at);
    let one = |point: &Point| run(&point.setting).map_err(|what| anyhow::anyhow!("a setting is impossible: {what}"));
    let outcomes = parallel::all(ui, &points, title, one)?;
    Ok(Swept { figure, points, outcomes })
}

/// Sign of a bound before the paper's number; empty for a number.
const fn sign(rule: Rule) -> &'static str {
    match rule {
        Rule::AtLeast => "≥ ",
        Rule::AtMost => "≤ ",
        _ => "",
    }
}

/// Points of a figure, then the paper's numbers beside ours.
fn table(swept: &Swept) -> String {
    let (title, axis) = swept.figure.title();
    let mut text = format!("{title}\n{:<20} {axis:>35} {:>9} {:>10} {:>7}", "", "tx/s", "latency ms", "little");
    let _ = writeln!(text, "   busy: {:>6} {:>6} {:>6} {:>6} {:>6}", "input", "batch", "worker", "exec", "backup");
    for (point, outcome) in swept.points.iter().zip(&swept.outcomes) {
        let Utilisation { input, batch, worker, execute, .. } = outcome.primary;
        let _ = writeln!(
            text,
            "{:<20} {:>35} {:>9.0} {:>10.1} {:>7.3}         {:>5.0}% {:>5.0}% {:>5.0}% {:>5.0}% {:>5.0}%",
            point.series,
            point.at,
            outcome.tps,
            outcome.latency_s * 1000.0,
            outcome.little,
            input * 100.0,
            batch * 100.0,
            worker * 100.0,
            execute * 100.0,
            outcome.backup.worker * 100.0,
        );
    }
    let _ = writeln!(text, "{:<56} {:>12} {:>12}", "", "paper", "ours");
    for comparison in swept.figure.compare(&swept.outcomes) {
        let Comparison { what, paper, ours, rule, reason } = comparison;
        let verdict = match rule {
            Rule::Fitted => "  fitted",
            Rule::Input => "  input",
            _ if comparison.agrees() => "",
            _ => "  outside",
        };
        let colon = if reason.is_empty() { "" } else { ": " };
        let paper = format!("{}{paper:.3}", sign(rule));
        let _ = writeln!(text, "{what:<56} {paper:>12} {ours:>12.3}{verdict}{colon}{reason}");
    }
    text
}

/// Throughput or latency over the axis, a line per series.
fn plot(swept: &Swept, latency: bool) -> Picture {
    let mut groups: Vec<String> = Vec::new();
    let mut drawn: Vec<Line> = Vec::new();
    for (point, outcome) in swept.points.iter().zip(&swept.outcomes) {
        let group = groups.iter().position(|known| *known == point.series).unwrap_or_else(|| {
            groups.push(point.series.clone());
            let (label, group) = (point.series.clone(), groups.len() - 1);
            drawn.push(Line { label, group, points: Vec::new() });
            group
        });
        let value = if latency { outcome.latency_s * 1000.0 } else { outcome.tps };
        drawn[group].points.push((point.at, value));
    }
    let (title, axis) = swept.figure.title();
    let y = if latency { "mean latency, ms" } else { "transactions per second" };
    lines(title, y, axis, &groups, &drawn)
}

/// Our numbers over the paper's, a bar each, below a bar of the paper's.
fn beside(swept: &Swept) -> Picture {
    let bars: Vec<Bar> = swept
        .figure
        .compare(&swept.outcomes)
        .into_iter()
        .flat_map(|Comparison { what, paper, ours, rule, .. }| {
            let bar = |name: &'static str, sign: &str, value: f64, colour| Bar {
                label: format!("{what}, {name}"),
                total: format!("{sign}{value:.3}"),
                segments: vec![Segment { name, value: value / paper, colour }],
            };
            [bar("paper", sign(rule), paper, 8), bar("ours", "", ours, 0)]
        })
        .collect();
    stacked(swept.figure.title().0, "our numbers beside the paper's", "times the paper's number", &bars)
}

fn csv(swept: &[Swept]) -> String {
    let mut text = "figure,series,at,tps,latency_ms,little,primary_batch,primary_worker,backup_worker\n".to_owned();
    for swept in swept {
        for (point, outcome) in swept.points.iter().zip(&swept.outcomes) {
            let Outcome { tps, latency_s, little, primary, backup, .. } = outcome;
            let (figure, series) = (swept.figure.title().0, &point.series);
            let _ = writeln!(
                text,
                "\"{figure}\",\"{series}\",{},{tps:.0},{:.3},{little:.4},{:.3},{:.3},{:.3}",
                point.at,
                latency_s * 1000.0,
                primary.batch,
                primary.worker,
                backup.worker,
            );
        }
    }
    text
}

fn to_json(swept: &[Swept]) -> Value {
    let point = |(point, outcome): (&Point, &Outcome)| ResilientdbPoint {
        series: point.series.clone(),
        at: point.at,
        tps: outcome.tps,
        latency_ms: outcome.latency_s * 1000.0,
        little: outcome.little,
        messages: outcome.messages,
        virtual_seconds: outcome.seconds,
        primary: Threads::from(&outcome.primary),
        backup: Threads::from(&outcome.backup),
        trace_hash: trace(outcome.trace),
    };
    let figure = |swept: &Swept| Drawn {
        figure: swept.figure.title().0.to_owned(),
        points: swept.points.iter().zip(&swept.outcomes).map(point).collect(),
        compared: swept.figure.compare(&swept.outcomes).into_iter().map(Compared::from).collect(),
    };
    value(&Figures { schema: SCHEMA, topology_source: None, figures: swept.iter().map(figure).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_lab::report::svg::Origin;

    #[test]
    fn a_figure_has_a_table_plots_and_the_papers_numbers() {
        assert_eq!(FigureName::value_variants().len(), Figure::ALL.len());
        let ui = ui::immediate();
        let swept = sweep(Figure::Seven, &ui).expect("possible");
        assert!(table(&swept).contains("500000.000"));
        assert!(plot(&swept, true).standalone(&Origin::default()).contains("<svg"));
        assert!(beside(&swept).standalone(&Origin::default()).contains("without execution, tx/s, paper"));
        assert_eq!(csv(core::slice::from_ref(&swept)).lines().count(), 3);
        let value = to_json(&[swept]);
        assert_eq!(value["figures"][0]["points"].as_array().map(Vec::len), Some(2));
        assert_eq!(value["figures"][0]["compared"][0]["agrees"], true);
    }
}
