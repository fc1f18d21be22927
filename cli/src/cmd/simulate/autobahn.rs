//! `simulate autobahn`: the evaluation of Autobahn against HotStuff in virtual time. Two runs print the same bytes.

use super::{
    claim::{Beside, agreement, virtual_time},
    parallel,
    written::{AutobahnPoint, Compared, Figure as Drawn, Figures, trace},
};
use crate::{exit, output, ui};
use clap::{Args, ValueEnum};
use phalanx_lab::{
    report::{
        Gallery,
        svg::{Line, Picture, lines},
    },
    result::SCHEMA,
    ui::Ui,
    written::value,
};
use phalanx_sim::{
    autobahn::{Figure, Outcome, Point, run},
    resilientdb::{Comparison, Rule},
};
use serde_json::Value;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// A figure of the paper's evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FigureName {
    /// Latency over throughput
    #[value(name = "5")]
    Five,
    /// 12 and 20 replicas
    #[value(name = "6")]
    Six,
    /// Failed leaders, by second
    #[value(name = "7")]
    Seven,
    /// A partition into halves, by second
    #[value(name = "8")]
    Eight,
    /// Fast path, tips and form: numbers of the text
    Ablation,
    /// Processes of `phalanx net`, as the model has them, by second
    Processes,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct AutobahnArgs {
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

impl AutobahnArgs {
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
        let plots = names.zip(swept).map(|(name, swept)| (format!("autobahn-{name}"), plot(swept)));
        let (pictures, command) = (plots.collect::<Vec<_>>(), output::command());
        let rows = Some(("autobahn.csv", csv(swept)));
        let compared = swept.iter().flat_map(|swept| swept.figure.compare(&swept.outcomes));
        let judged = compared.map(|of| {
            let agrees = (!matches!(of.rule, Rule::Fitted | Rule::Input)).then(|| of.agrees());
            Beside { what: of.what.into(), paper: of.paper, sign: sign(of.rule), ours: of.ours, agrees }
        });
        let (claim, doubts) = agreement("Autobahn, simulated", judged);
        let claim = virtual_time(&claim, &pictures);
        let gallery = Gallery {
            title: "Autobahn, simulated",
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

/// Mean latency by second of submission, in s; `None` where nothing is ready.
fn seconds(outcome: &Outcome) -> Vec<Option<f64>> {
    outcome.series.seconds().iter().map(|second| second.latency_s()).collect()
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
    let mut text = format!(
        "{title}\n{:<20} {axis:>24} {:>9} {:>10} {:>7} {:>7} {:>8} {:>10}\n",
        "", "tx/s", "latency ms", "ready", "busy", "views", "messages/s"
    );
    for (point, outcome) in swept.points.iter().zip(&swept.outcomes) {
        let Outcome { tps, latency_ms, answered, busy, views, messages, .. } = outcome;
        let at = if swept.figure.is_over_time() { String::new() } else { point.at.to_string() };
        let _ = writeln!(
            text,
            "{:<20} {at:>24} {tps:>9.0} {latency_ms:>10.1} {:>6.1}% {:>6.0}% {views:>8} {messages:>10.0}",
            point.series,
            answered * 100.0,
            busy.0.max(busy.1) * 100.0,
        );
        if swept.figure.is_over_time() {
            let shown = seconds(outcome).into_iter().map(|latency| latency.map_or("-".into(), |s| format!("{s:.2}")));
            let _ = writeln!(text, "    s by second: {}", shown.collect::<Vec<_>>().join(" "));
        }
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

/// Latency over the axis or over time, a line per series, the paper's beside ours where it prints one.
fn plot(swept: &Swept) -> Picture {
    let mut groups: Vec<String> = Vec::new();
    let mut drawn: Vec<Line> = Vec::new();
    let over_time = swept.figure.is_over_time();
    for (point, outcome) in swept.points.iter().zip(&swept.outcomes) {
        let mut add = |label: String, points: Vec<(f64, f64)>| {
            let group = groups.iter().position(|known| *known == label).unwrap_or_else(|| {
                groups.push(label.clone());
                drawn.push(Line { label, group: groups.len() - 1, points: Vec::new() });
                groups.len() - 1
            });
            drawn[group].points.extend(points);
        };
        if over_time {
            let ours = (0..).map(f64::from).zip(seconds(outcome));
            add(point.series.clone(), ours.filter_map(|(at, latency)| Some((at, latency? * 1000.0))).collect());
            if point.paper.len() > 1 {
                let begin = point.setting.blip.map_or(0, |blip| blip.begin_ms() / 1_000) as f64;
                let paper = point.paper.iter().enumerate().map(|(at, s)| (begin + at as f64, s * 1000.0));
                add(format!("{}, paper", point.series), paper.collect());
            }
        } else {
            add(point.series.clone(), vec![(point.at, outcome.latency_ms)]);
        }
    }
    let (title, axis) = swept.figure.title();
    lines(title, "mean latency, ms", axis, &groups, &drawn)
}

fn csv(swept: &[Swept]) -> String {
    let mut text = "figure,series,at,second,latency_ms,tps,ready\n".to_owned();
    for swept in swept {
        let figure = swept.figure.title().0;
        for (point, outcome) in swept.points.iter().zip(&swept.outcomes) {
            let Outcome { tps, latency_ms, answered, .. } = outcome;
            let _ = writeln!(
                text,
                "\"{figure}\",\"{}\",{},,{latency_ms:.3},{tps:.0},{answered:.4}",
                point.series, point.at
            );
            if swept.figure.is_over_time() {
                for (second, latency) in seconds(outcome).into_iter().enumerate() {
                    let latency = latency.map_or(String::new(), |s| format!("{:.3}", s * 1000.0));
                    let _ = writeln!(text, "\"{figure}\",\"{}\",,{second},{latency},,", point.series);
                }
            }
        }
    }
    text
}

fn to_json(swept: &[Swept]) -> Value {
    let point = |(point, outcome): (&Point, &Outcome)| AutobahnPoint {
        series: point.series.clone(),
        at: point.at,
        tps: outcome.tps,
        latency_ms: outcome.latency_ms,
        ready: outcome.answered,
        views_given_up: outcome.views,
        messages_per_second: outcome.messages,
        seconds: seconds(outcome),
        paper_seconds: point.paper.to_vec(),
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
    fn a_figure_has_a_table_a_plot_and_the_papers_numbers() {
        assert_eq!(FigureName::value_variants().len(), Figure::ALL.len());
        let ui = ui::immediate();
        let swept = sweep(Figure::Seven, &ui).expect("possible");
        assert!(table(&swept).contains("hangover") && plot(&swept).standalone(&Origin::default()).contains("<svg"));
        let value = to_json(core::slice::from_ref(&swept));
        assert_eq!(value["figures"][0]["points"].as_array().map(Vec::len), Some(5));
        assert!(csv(&[swept]).lines().count() > 100);
    }
}
