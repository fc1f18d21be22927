//! The papers' evaluations as commands: sweeps, tables, JSON and pages. Two runs print the same bytes.

use super::{
    claim::{Beside, agreement, virtual_time},
    parallel,
    written::{Compared, Figure, Figures},
};
use crate::{exit, output, ui};
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use phalanx_lab::{
    report::{
        Gallery,
        svg::{Bar, Line, Picture, Segment, lines, stacked},
    },
    result::SCHEMA,
    ui::Ui,
    written::value,
};
use phalanx_sim::paper::{Comparison, Evaluation, Point, Rule};
use serde::Serialize;
use serde_json::Value;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// A figure, with its name on the command line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<E> {
    pub(super) figure: E,
    pub(super) name: &'static str,
}

/// Parser of `--figure`: the names of an evaluation's figures, each with its title.
pub(super) fn figures<E: Shown>() -> impl TypedValueParser<Value = Named<E>> {
    let named = || E::NAMES.iter().copied().zip(E::ALL).map(|(name, figure)| Named { figure: *figure, name });
    let values = named().map(|Named { figure, name }| PossibleValue::new(name).help(figure.title().0));
    let parse = move |text: String| named().find(|known| known.name == text).ok_or_else(|| format!("no figure {text}"));
    PossibleValuesParser::new(values.collect::<Vec<_>>()).try_map(parse)
}

/// Flags of an evaluation that has figures alone.
#[derive(Clone, Debug, Args)]
pub(crate) struct EvaluationArgs<E: Shown> {
    /// Figure to sweep, at the paper's settings; repeatable
    #[arg(long = "figure", value_parser = figures::<E>(), required = true)]
    figures: Vec<Named<E>>,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
    /// Folder for plots and a CSV file of their points
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

impl<E: Shown> EvaluationArgs<E> {
    /// Sweeps the figures and shows them.
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        show(&sweep(&self.figures)?, self.json.as_deref(), self.report.as_deref())
    }
}

/// Runs all points of some figures, figure by figure.
pub(super) fn sweep<E: Shown>(figures: &[Named<E>]) -> anyhow::Result<Vec<Swept<E>>> {
    let ui = ui::immediate();
    figures.iter().map(|named| Swept::figure(*named, &ui)).collect()
}

/// A paper's evaluation with its columns, plots and rows.
pub(crate) trait Shown: Evaluation<Setting: Sync, Outcome: Send> + Send + Sync {
    /// Names of [`Evaluation::ALL`] on the command line.
    const NAMES: &'static [&'static str];

    /// A point as JSON has it.
    type Written: Serialize;

    /// Subject of the pages.
    const SUBJECT: &'static str;
    /// Digits behind the point of numbers beside the paper's.
    const DIGITS: usize = 3;
    /// File of the points.
    const ROWS: &'static str = "points.csv";
    /// Source of the distances between replicas, if they are measured ones.
    const DISTANCES: Option<&'static str> = None;
    /// True if JSON names causes of differences.
    const HAS_REASONS: bool = true;

    /// Title and names of the columns.
    fn head(swept: &Swept<Self>) -> String;

    /// Lines of a point under the columns.
    fn line(swept: &Swept<Self>, point: &Point<Self::Setting>, outcome: &Self::Outcome) -> String;

    /// Sentence below the points, if there is one to state.
    fn note(_swept: &Swept<Self>) -> String {
        String::new()
    }

    /// Claim of a page without numbers of the paper.
    fn claim(_swept: &[Swept<Self>]) -> Option<String> {
        None
    }

    /// Name of a sweep in JSON and rows.
    fn label(swept: &Swept<Self>) -> &'static str {
        swept.title().0
    }

    /// Plots of a sweep, with the names of their files.
    fn plots(swept: &Swept<Self>) -> Vec<(String, Picture)>;

    /// Names of the columns of the rows.
    const COLUMNS: &'static str;

    /// Rows of a point.
    fn rows(swept: &Swept<Self>, point: &Point<Self::Setting>, outcome: &Self::Outcome) -> String;

    /// A point as JSON has it.
    fn written(point: &Point<Self::Setting>, outcome: &Self::Outcome) -> Self::Written;
}

/// Simulated points: a figure's, or a single one.
pub(crate) struct Swept<E: Evaluation> {
    pub(super) figure: Option<E>,
    /// Name on the command line.
    pub(super) name: &'static str,
    pub(super) points: Vec<Point<E::Setting>>,
    pub(super) outcomes: Vec<E::Outcome>,
}

impl<E: Shown> Swept<E> {
    /// Runs all points of a figure, side by side.
    pub(super) fn figure(Named { figure, name }: Named<E>, ui: &Ui) -> anyhow::Result<Self> {
        Self::run(Some(figure), name, figure.points(), ui)
    }

    /// Runs points, side by side.
    pub(super) fn run(
        figure: Option<E>,
        name: &'static str,
        points: Vec<Point<E::Setting>>,
        ui: &Ui,
    ) -> anyhow::Result<Self> {
        let what = figure.map_or("", |figure| figure.title().0);
        let comma = if what.is_empty() { "" } else { ", " };
        let title = |point: &Point<E::Setting>| format!("{what}{comma}{} {}", point.series, point.at);
        let one = |point: &Point<E::Setting>| {
            E::run(&point.setting).map_err(|what| anyhow::anyhow!("a setting is impossible: {what}"))
        };
        let outcomes = parallel::all(ui, &points, title, one)?;
        Ok(Self { figure, name, points, outcomes })
    }

    /// Title, and the name of the axis.
    pub(super) fn title(&self) -> (&'static str, &'static str) {
        self.figure.map_or(("One setting", "clients"), E::title)
    }

    /// The paper's numbers beside ours; none for a single point.
    pub(super) fn compared(&self) -> Vec<Comparison> {
        self.figure.map_or_else(Vec::new, |figure| figure.compare(&self.outcomes))
    }

    /// Points with their outcomes.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&Point<E::Setting>, &E::Outcome)> {
        self.points.iter().zip(&self.outcomes)
    }

    /// Points, then the paper's numbers beside ours.
    pub(super) fn table(&self) -> String {
        let mut text = E::head(self);
        self.pairs().for_each(|(point, outcome)| text += &E::line(self, point, outcome));
        text += &E::note(self);
        let compared = self.compared();
        if !compared.is_empty() {
            let _ = writeln!(text, "{:<56} {:>12} {:>12}", "", "paper", "ours");
        }
        for number in compared {
            let verdict = match number.rule {
                Rule::Fitted => "  fitted",
                Rule::Input => "  input",
                _ if number.agrees() => "",
                _ => "  outside",
            };
            let Comparison { what, paper, ours, rule, reason, .. } = number;
            let (colon, digits) = (if reason.is_empty() { "" } else { ": " }, E::DIGITS);
            let paper = format!("{}{paper:.digits$}", rule.sign());
            let _ = writeln!(text, "{what:<56} {paper:>12} {ours:>12.digits$}{verdict}{colon}{reason}");
        }
        text
    }

    /// A number over the axis, a line per series.
    pub(super) fn plot(&self, y: &str, of: impl Fn(&E::Outcome) -> f64) -> Picture {
        let points = self.pairs().map(|(point, outcome)| (point.series.clone(), vec![(point.at, of(outcome))]));
        let ((groups, drawn), (title, axis)) = (series(points), self.title());
        lines(title, y, axis, &groups, &drawn)
    }

    /// Our numbers over the paper's, a bar each, below a bar of the paper's.
    pub(super) fn beside(&self) -> Picture {
        let pair = |Comparison { what, paper, ours, rule, .. }: Comparison| {
            let bar = |name: &'static str, sign: &str, value: f64, colour| Bar {
                label: format!("{what}, {name}"),
                total: format!("{sign}{value:.digits$}", digits = E::DIGITS),
                segments: vec![Segment { name, value: value / paper, colour }],
            };
            [bar("paper", rule.sign(), paper, 8), bar("ours", "", ours, 0)]
        };
        let bars: Vec<Bar> = self.compared().into_iter().flat_map(pair).collect();
        stacked(self.title().0, "our numbers beside the paper's", "times the paper's number", &bars)
    }

    fn written(&self) -> Figure<E::Written> {
        let compared = self.compared();
        let judged: Vec<bool> = compared.iter().filter(|of| of.rule.predicts()).map(Comparison::agrees).collect();
        Figure {
            figure: E::label(self).to_owned(),
            points: self.pairs().map(|(point, outcome)| E::written(point, outcome)).collect(),
            compared: compared.iter().map(|of| Compared::new(of, E::HAS_REASONS)).collect(),
            judged: judged.len(),
            met: judged.into_iter().filter(|agrees| *agrees).count(),
        }
    }
}

/// Sweeps as JSON.
pub(super) fn to_json<E: Shown>(swept: &[Swept<E>]) -> Value {
    let figures = swept.iter().map(Swept::written).collect();
    value(&Figures { schema: SCHEMA, topology_source: E::DISTANCES, figures })
}

/// Rows of all points.
pub(super) fn csv<E: Shown>(swept: &[Swept<E>]) -> String {
    let mut text = format!("{}\n", E::COLUMNS);
    for swept in swept {
        swept.pairs().for_each(|(point, outcome)| text += &E::rows(swept, point, outcome));
    }
    text
}

/// Shows sweeps as a table or as JSON, and writes their page.
pub(super) fn show<E: Shown>(swept: &[Swept<E>], json: Option<&Path>, report: Option<&Path>) -> anyhow::Result<u8> {
    let table = swept.iter().map(Swept::table).collect::<Vec<_>>().join("\n");
    print(&table, || to_json(swept), json)?;
    let Some(dir) = report else { return Ok(exit::OK) };
    let (title, command) = (format!("{}, simulated", E::SUBJECT), output::command());
    let pictures: Vec<_> = swept.iter().flat_map(E::plots).collect();
    let judged = swept.iter().flat_map(Swept::compared).map(|of| Beside {
        what: of.what.into(),
        paper: of.paper,
        sign: of.rule.sign(),
        ours: of.ours,
        agrees: of.rule.predicts().then(|| of.agrees()),
    });
    let (agrees, doubts) = agreement(&title, judged);
    let claim = virtual_time(&E::claim(swept).unwrap_or(agrees), &pictures);
    let gallery = Gallery {
        title: &title,
        claim: Some(claim),
        doubts,
        table: &table,
        pictures,
        rows: Some((E::ROWS, csv(swept))),
        command: &command,
    };
    output::gallery(dir, &gallery, json == Some(Path::new("-")))?;
    Ok(exit::OK)
}

/// Prints the table, unless JSON goes to standard output, and writes JSON where it is asked for.
pub(super) fn print(table: &str, value: impl Fn() -> Value, json: Option<&Path>) -> anyhow::Result<()> {
    if json != Some(Path::new("-")) {
        output::print(table)?;
    }
    json.map_or(Ok(()), |path| output::json(path, &value()))
}

/// A line per series, in the order of their first points.
pub(super) fn series(points: impl IntoIterator<Item = (String, Vec<(f64, f64)>)>) -> (Vec<String>, Vec<Line>) {
    let mut groups: Vec<String> = Vec::new();
    let mut drawn: Vec<Line> = Vec::new();
    for (label, points) in points {
        let group = groups.iter().position(|known| *known == label).unwrap_or_else(|| {
            groups.push(label.clone());
            drawn.push(Line { label, group: groups.len() - 1, points: Vec::new() });
            groups.len() - 1
        });
        drawn[group].points.extend(points);
    }
    (groups, drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures_have_names<E: Shown>() {
        let parse = |name: &str| {
            clap::Command::new("x")
                .arg(clap::Arg::new("f").value_parser(figures::<E>()))
                .try_get_matches_from(["x", name])
        };
        for name in E::NAMES {
            let parsed = parse(name).expect("a figure");
            assert_eq!(parsed.get_one::<Named<E>>("f").map(|of| of.name), Some(*name));
        }
        assert_eq!(E::NAMES.len(), E::ALL.len());
        assert!(parse("99").is_err());
    }

    #[test]
    fn every_figure_has_a_name_on_the_command_line() {
        figures_have_names::<phalanx_sim::resilientdb::Figure>();
        figures_have_names::<phalanx_sim::sbft::Figure>();
        figures_have_names::<phalanx_sim::autobahn::Figure>();
    }
}
