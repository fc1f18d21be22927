//! `simulate sbft`: throughput and latency of SBFT and of what it is built from, in virtual time. Two runs print the same bytes.

use super::{
    claim::{Beside, agreement, virtual_time},
    parallel,
    written::{Compared, Figure as Drawn, Figures, SbftPoint, trace},
};
use crate::{exit, flags::word, output, ui};
use clap::{Args, ValueEnum};
use phalanx_lab::{
    config::heading,
    error::Usage,
    report::{
        Gallery,
        svg::{Bar, Line, Picture, Segment, lines, stacked},
        text::{count, counted, figure},
    },
    result::SCHEMA,
    ui::Ui,
    written::value,
};
use phalanx_sim::sbft::{
    Comparison, Costs, Figure, Outcome, Point, Rule, SOURCE, Setting, Topology, Variant, Workload, run,
};
use serde_json::Value;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// A figure of the paper's evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FigureName {
    /// Key-value store, a put in each request, by clients and crashed replicas (Figures 2 and 3)
    Single,
    /// The same with 64 puts in each request
    Batched,
    /// Contracts on a continent and around the world (section IX)
    Contracts,
}

/// Protocol, as the paper builds SBFT up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtocolName {
    /// A single machine
    Alone,
    /// PBFT
    Pbft,
    /// PBFT with collectors
    Linear,
    /// The same with a fast path
    Fast,
    /// The same with one message to the client, and redundant replicas
    Sbft,
}

/// Requests of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkloadName {
    /// A put into a key-value store
    Put,
    /// 64 puts
    Puts,
    /// A chunk of 50 contract transactions
    Contracts,
}

/// Deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopologyName {
    /// Five regions of North America
    Continent,
    /// Fifteen regions on six continents
    World,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SbftArgs {
    /// Sweep a figure, at the paper's settings; repeatable. Without one, the other flags are a single point
    #[arg(long = "figure", value_enum, help_heading = heading::LOAD)]
    figures: Vec<FigureName>,
    /// Protocol
    #[arg(long, value_enum, default_value_t = ProtocolName::Sbft, help_heading = heading::NETWORK)]
    protocol: ProtocolName,
    /// Faulty replicas that the protocol withstands
    #[arg(long, default_value_t = Setting::PAPER.f, help_heading = heading::NETWORK)]
    f: usize,
    /// Crashed or slow replicas that the fast path of `sbft` tolerates: n = 3f+2c+1
    #[arg(long, default_value_t = 0, help_heading = heading::NETWORK)]
    c: usize,
    /// Deployment
    #[arg(long, value_enum, default_value_t = TopologyName::Continent, help_heading = heading::NETWORK)]
    topology: TopologyName,
    /// Requests
    #[arg(long, value_enum, default_value_t = WorkloadName::Contracts, help_heading = heading::LOAD)]
    workload: WorkloadName,
    /// Clients, each with one request at a time
    #[arg(long, default_value_t = Setting::PAPER.clients, help_heading = heading::LOAD)]
    clients: u64,
    /// Crashed backups, at most f
    #[arg(long, default_value_t = 0, help_heading = heading::NETWORK)]
    crashed: usize,
    /// Measured requests of each client
    #[arg(long, default_value_t = Setting::PAPER.requests, help_heading = heading::LOAD)]
    requests: u64,
    /// Seed of the delays
    #[arg(long, default_value_t = Setting::PAPER.seed, help_heading = heading::NETWORK)]
    seed: u64,
    /// Write the result as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-", help_heading = heading::OUTPUT)]
    json: Option<PathBuf>,
    /// Folder for plots and a CSV file of their points
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    report: Option<PathBuf>,
}

/// Simulated points: a figure's, or a single one.
struct Swept {
    figure: Option<Figure>,
    name: String,
    points: Vec<Point>,
    outcomes: Vec<Outcome>,
}

impl Swept {
    fn compared(&self) -> Vec<Comparison> {
        self.figure.map_or_else(Vec::new, |figure| figure.compare(&self.outcomes))
    }

    fn title(&self) -> (&'static str, &'static str) {
        self.figure.map_or(("One setting", "clients"), Figure::title)
    }

    /// The point of the flags and its outcome, if these are no figure's.
    fn single(&self) -> Option<(&Point, &Outcome)> {
        if self.figure.is_some() { None } else { self.points.iter().zip(&self.outcomes).next() }
    }
}

impl SbftArgs {
    /// Simulates and shows.
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let ui = ui::immediate();
        let mut swept = Vec::new();
        for name in &self.figures {
            let figure = Figure::ALL[*name as usize];
            swept.push(sweep(Some(figure), word(*name), figure.points(), &ui)?);
        }
        if self.figures.is_empty() {
            let setting = self.setting()?;
            let point = Point { series: word(self.protocol), at: setting.clients as f64, setting };
            swept.push(sweep(None, "point".into(), vec![point], &ui)?);
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

    fn setting(&self) -> Result<Setting, Usage> {
        let costs = Costs::FROZEN;
        let setting = Setting {
            variant: match self.protocol {
                ProtocolName::Alone => Variant::Alone,
                ProtocolName::Pbft => Variant::Pbft,
                ProtocolName::Linear => Variant::Linear,
                ProtocolName::Fast => Variant::Fast,
                ProtocolName::Sbft => Variant::Sbft,
            },
            f: self.f,
            c: self.c,
            topology: match self.topology {
                TopologyName::Continent => Topology::Continent,
                TopologyName::World => Topology::World,
            },
            clients: self.clients,
            workload: match self.workload {
                WorkloadName::Put => Workload::puts(1, &costs),
                WorkloadName::Puts => Workload::puts(64, &costs),
                WorkloadName::Contracts => Workload::contracts(&costs),
            },
            crashed: self.crashed,
            requests: self.requests,
            seed: self.seed,
            costs,
        };
        setting.check().map_err(|what| Usage(format!("the setting is impossible: {what}")))?;
        Ok(setting)
    }

    fn write_plots(&self, swept: &[Swept]) -> anyhow::Result<()> {
        let Some(dir) = &self.report else { return Ok(()) };
        // A single point is no plot, and the paper has no number beside it.
        let figures = swept.iter().filter(|swept| swept.single().is_none());
        let plots = figures.flat_map(|swept| {
            let plots =
                [("throughput", plot(swept, false)), ("latency", plot(swept, true)), ("compared", beside(swept))];
            plots.map(move |(kind, plot)| (format!("{}-{kind}", swept.name), plot))
        });
        let (pictures, command) = (plots.collect::<Vec<_>>(), output::command());
        let rows = Some(("points.csv", csv(swept)));
        let compared = swept.iter().flat_map(Swept::compared);
        let judged = compared.map(|of| {
            let agrees = (!matches!(of.rule, Rule::Fitted | Rule::Input)).then(|| of.agrees());
            Beside { what: of.what.into(), paper: of.paper, sign: sign(of.rule), ours: of.ours, agrees }
        });
        let (mut claim, doubts) = agreement("SBFT, simulated", judged);
        if let Some((point, outcome)) = swept.iter().find_map(Swept::single) {
            claim = stated(point, outcome);
        }
        let claim = virtual_time(&claim, &pictures);
        let gallery = Gallery {
            title: "SBFT, simulated",
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

/// Runs points, side by side.
fn sweep(figure: Option<Figure>, name: String, points: Vec<Point>, ui: &Ui) -> anyhow::Result<Swept> {
    let title = |point: &Point| format!("{}, {}", point.series, point.at);
    let one = |point: &Point| run(&point.setting).map_err(|what| anyhow::anyhow!("{}: {what}", point.series));
    let outcomes = parallel::all(ui, &points, title, one)?;
    Ok(Swept { figure, name, points, outcomes })
}

/// The outcome of a point in a sentence.
fn stated(point: &Point, outcome: &Outcome) -> String {
    format!(
        "{}: {} operations per second, and a client waits {} ms at the median",
        setting(point),
        count(outcome.per_second),
        figure(outcome.median_ms)
    )
}

/// Replicas and clients, in words.
fn setting(point: &Point) -> String {
    let (series, of) = (&point.series, &point.setting);
    let replicas = match of.variant {
        Variant::Alone => "one machine".to_owned(),
        _ => format!("{} replicas (f = {}, c = {})", of.n(), of.f, of.c),
    };
    let place = match of.topology {
        Topology::Continent => "on a continent",
        Topology::World => "around the world",
    };
    let crashed = if of.crashed == 0 { String::new() } else { format!(", {} crashed", of.crashed) };
    let clients = counted(usize::try_from(of.clients).unwrap_or(usize::MAX), "client");
    let operations = counted(usize::try_from(of.workload.operations).unwrap_or(usize::MAX), "operation");
    format!("{series}, {replicas} {place}{crashed}, {clients} with requests of {operations}")
}

/// Sign of a bound before the paper's number; empty for a number.
const fn sign(rule: Rule) -> &'static str {
    match rule {
        Rule::Above => "> ",
        Rule::AtMost => "≤ ",
        _ => "",
    }
}

/// Points of a figure, then the paper's numbers beside ours.
fn table(swept: &Swept) -> String {
    let (title, axis) = swept.title();
    let (label, at) = (swept.points.iter().map(|point| point.series.chars().count()).max().unwrap_or(0), axis.len());
    let mut text = format!("{title}\n{:label$}  {axis:>at$}", "");
    let _ = writeln!(
        text,
        "  {:>21} {:>10} {:>10} {:>6} {:>19}",
        "operations per second", "median ms", "mean ms", "fast", "messages per block"
    );
    for (point, outcome) in swept.points.iter().zip(&swept.outcomes) {
        let Outcome { per_second, median_ms, mean_ms, messages, fast, .. } = outcome;
        let _ = writeln!(
            text,
            "{:label$}  {:>at$}  {per_second:>21.0} {median_ms:>10.1} {mean_ms:>10.1} {:>5.0}% {messages:>19.0}",
            point.series,
            point.at,
            fast * 100.0,
        );
    }
    if let Some((point, _)) = swept.single() {
        let of = &point.setting;
        let requests = counted(usize::try_from(of.requests).unwrap_or(usize::MAX), "measured request");
        let _ = writeln!(text, "\n{}; {requests} of each client, seed {}.", setting(point), of.seed);
    }
    let compared = swept.compared();
    if !compared.is_empty() {
        let _ = writeln!(text, "{:<56} {:>12} {:>12}", "", "paper", "ours");
    }
    for comparison in compared {
        let Comparison { what, paper, ours, rule } = comparison;
        let verdict = match rule {
            Rule::Fitted => "  fitted",
            Rule::Input => "  input",
            _ if comparison.agrees() => "",
            _ => "  outside",
        };
        let paper = format!("{}{paper:.2}", sign(rule));
        let _ = writeln!(text, "{what:<56} {paper:>12} {ours:>12.2}{verdict}");
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
        drawn[group].points.push((point.at, if latency { outcome.median_ms } else { outcome.per_second }));
    }
    let (title, axis) = swept.title();
    lines(title, if latency { "median latency, ms" } else { "operations per second" }, axis, &groups, &drawn)
}

/// Our numbers over the paper's, a bar each, below a bar of the paper's.
fn beside(swept: &Swept) -> Picture {
    let pair = |Comparison { what, paper, ours, rule, .. }: Comparison| {
        let bar = |name: &'static str, sign: &str, value: f64, colour| Bar {
            label: format!("{what}, {name}"),
            total: format!("{sign}{value:.2}"),
            segments: vec![Segment { name, value: value / paper, colour }],
        };
        [bar("paper", sign(rule), paper, 8), bar("ours", "", ours, 0)]
    };
    let bars: Vec<Bar> = swept.compared().into_iter().flat_map(pair).collect();
    stacked(swept.title().0, "our numbers beside the paper's", "times the paper's number", &bars)
}

fn csv(swept: &[Swept]) -> String {
    let mut text = "figure,series,at,per_second,median_ms,mean_ms,little,fast,messages_per_block\n".to_owned();
    for swept in swept {
        for (point, outcome) in swept.points.iter().zip(&swept.outcomes) {
            let Outcome { per_second, median_ms, mean_ms, little, fast, messages, .. } = outcome;
            let (figure, series, at) = (&swept.name, &point.series, point.at);
            let _ = writeln!(
                text,
                "\"{figure}\",\"{series}\",{at},{per_second:.1},{median_ms:.2},{mean_ms:.2},{little:.4},{fast:.3},{messages:.0}"
            );
        }
    }
    text
}

fn to_json(swept: &[Swept]) -> Value {
    let point = |(point, outcome): (&Point, &Outcome)| SbftPoint {
        series: point.series.clone(),
        at: point.at,
        replicas: point.setting.n(),
        f: point.setting.f,
        c: point.setting.c,
        topology: format!("{:?}", point.setting.topology).to_lowercase(),
        clients: point.setting.clients,
        crashed: point.setting.crashed,
        operations_per_request: point.setting.workload.operations,
        seed: point.setting.seed,
        per_second: outcome.per_second,
        median_ms: outcome.median_ms,
        mean_ms: outcome.mean_ms,
        little: outcome.little,
        fast_share: outcome.fast,
        messages_per_block: outcome.messages,
        requests_per_block: outcome.block,
        trace_hash: trace(outcome.trace),
    };
    let figure = |swept: &Swept| Drawn {
        figure: swept.name.clone(),
        points: swept.points.iter().zip(&swept.outcomes).map(point).collect(),
        compared: swept.compared().into_iter().map(Compared::from).collect(),
    };
    let figures = swept.iter().map(figure).collect();
    value(&Figures { schema: SCHEMA, topology_source: Some(SOURCE), figures })
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_lab::report::svg::Origin;

    #[test]
    fn a_point_has_a_table_plots_and_json() {
        assert_eq!(FigureName::value_variants().len(), Figure::ALL.len());
        let setting = Setting { f: 1, c: 1, ..Setting::PAPER };
        let point = Point { series: "sbft".into(), at: 2.0, setting };
        let swept = sweep(None, "point".into(), vec![point], &ui::immediate()).expect("possible");
        let text = table(&swept);
        assert!(text.contains("sbft") && text.contains("clients  operations per second"), "{text}");
        assert!(plot(&swept, true).standalone(&Origin::default()).contains("<svg"));
        let (point, outcome) = swept.single().expect("no figure's");
        let said = stated(point, outcome);
        assert!(
            said.starts_with("sbft, 6 replicas (f = 1, c = 1) on a continent, 2 clients") && !said.contains("paper"),
            "{said}"
        );
        assert!(text.contains("40 measured requests of each client, seed 1."), "{text}");
        assert_eq!(csv(core::slice::from_ref(&swept)).lines().count(), 2);
        let value = to_json(&[swept]);
        assert_eq!(value["figures"][0]["points"][0]["replicas"], 6);
    }
}
