//! `simulate sbft`: throughput and latency of SBFT and of what it is built from, in virtual time.

use super::{
    evaluation::{Named, Shown, Swept, figures, show, sweep},
    written::SbftPoint,
};
use crate::ui;
use clap::Args;
use phalanx_lab::{
    config::{Words, heading, name_of, one_of},
    error::Usage,
    report::{
        svg::Picture,
        text::{count, counted, figure},
    },
};
use phalanx_sim::sbft::{Costs, Figure, Outcome, Point, SOURCE, Setting, Topology, Variant, Workload};
use std::{fmt::Write as _, path::PathBuf};

/// Protocols, as the paper builds SBFT up.
const PROTOCOLS: Words<Variant> = &[
    (Variant::Alone, "alone", "A single machine"),
    (Variant::Pbft, "pbft", "PBFT"),
    (Variant::Linear, "linear", "PBFT with collectors"),
    (Variant::Fast, "fast", "The same with a fast path"),
    (Variant::Sbft, "sbft", "The same with one message to the client, and redundant replicas"),
];

/// Requests of clients.
const WORKLOADS: Words<Workload> = &[
    (Workload::puts(1, &Costs::FROZEN), "put", "A put into a key-value store"),
    (Workload::puts(64, &Costs::FROZEN), "puts", "64 puts"),
    (Workload::contracts(&Costs::FROZEN), "contracts", "A chunk of 50 contract transactions"),
];

/// Deployments.
const TOPOLOGIES: Words<Topology> = &[
    (Topology::Continent, "continent", "Five regions of North America"),
    (Topology::World, "world", "Fifteen regions on six continents"),
];

#[derive(Clone, Debug, Args)]
pub(crate) struct SbftArgs {
    /// Sweep a figure, at the paper's settings; repeatable. Without one, the other flags are a single point
    #[arg(long = "figure", value_parser = figures::<Figure>(), help_heading = heading::LOAD)]
    figures: Vec<Named<Figure>>,
    /// Protocol
    #[arg(long, value_parser = one_of(PROTOCOLS), default_value = "sbft", help_heading = heading::NETWORK)]
    protocol: Variant,
    /// Faulty replicas that the protocol withstands
    #[arg(long, default_value_t = Setting::PAPER.f, help_heading = heading::NETWORK)]
    f: usize,
    /// Crashed or slow replicas that the fast path of `sbft` tolerates: n = 3f+2c+1
    #[arg(long, default_value_t = 0, help_heading = heading::NETWORK)]
    c: usize,
    /// Deployment
    #[arg(long, value_parser = one_of(TOPOLOGIES), default_value = "continent", help_heading = heading::NETWORK)]
    topology: Topology,
    /// Requests
    #[arg(long, value_parser = one_of(WORKLOADS), default_value = "contracts", help_heading = heading::LOAD)]
    workload: Workload,
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

impl SbftArgs {
    /// Simulates and shows.
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let mut swept = sweep(&self.figures)?;
        if swept.is_empty() {
            let setting = self.setting()?;
            let point = Point::new(name_of(PROTOCOLS, &self.protocol), setting.clients as f64, setting);
            swept.push(Swept::run(None, "point", vec![point], &ui::immediate())?);
        }
        show(&swept, self.json.as_deref(), self.report.as_deref())
    }

    fn setting(&self) -> Result<Setting, Usage> {
        let &Self { protocol: variant, f, c, topology, clients, workload, crashed, requests, seed, .. } = self;
        let costs = Costs::FROZEN;
        let setting = Setting { variant, f, c, topology, clients, workload, crashed, requests, seed, costs };
        setting.check().map_err(|what| Usage(format!("the setting is impossible: {what}")))?;
        Ok(setting)
    }
}

/// The point of the flags and its outcome, if these are no figure's.
fn single(swept: &Swept<Figure>) -> Option<(&Point, &Outcome)> {
    if swept.figure.is_some() { None } else { swept.pairs().next() }
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

impl Shown for Figure {
    const NAMES: &'static [&'static str] = &["single", "batched", "contracts"];

    type Written = SbftPoint;

    const SUBJECT: &'static str = "SBFT";
    const DIGITS: usize = 2;
    const DISTANCES: Option<&'static str> = Some(SOURCE);
    const HAS_REASONS: bool = false;
    const COLUMNS: &'static str = "figure,series,at,per_second,median_ms,mean_ms,little,fast,messages_per_block";

    fn head(swept: &Swept<Self>) -> String {
        let ((title, axis), label) = (swept.title(), width(swept));
        let mut text = format!("{title}\n{:label$}  {axis}", "");
        let _ = writeln!(
            text,
            "  {:>21} {:>10} {:>10} {:>6} {:>19}",
            "operations per second", "median ms", "mean ms", "fast", "messages per block"
        );
        text
    }

    fn line(swept: &Swept<Self>, point: &Point, outcome: &Outcome) -> String {
        let Outcome { per_second, median_ms, mean_ms, messages, fast, .. } = outcome;
        let (label, at) = (width(swept), swept.title().1.len());
        format!(
            "{:label$}  {:>at$}  {per_second:>21.0} {median_ms:>10.1} {mean_ms:>10.1} {:>5.0}% {messages:>19.0}\n",
            point.series,
            point.at,
            fast * 100.0,
        )
    }

    fn note(swept: &Swept<Self>) -> String {
        let Some((point, _)) = single(swept) else { return String::new() };
        let of = &point.setting;
        let requests = counted(usize::try_from(of.requests).unwrap_or(usize::MAX), "measured request");
        format!("\n{}; {requests} of each client, seed {}.\n", setting(point), of.seed)
    }

    fn claim(swept: &[Swept<Self>]) -> Option<String> {
        swept.iter().find_map(single).map(|(point, outcome)| stated(point, outcome))
    }

    fn label(swept: &Swept<Self>) -> &'static str {
        swept.name
    }

    /// Throughput and latency over the axis, a line per series, and our numbers beside the paper's. A single point is no plot, and
    /// the paper has no number beside it.
    fn plots(swept: &Swept<Self>) -> Vec<(String, Picture)> {
        if single(swept).is_some() {
            return Vec::new();
        }
        let throughput = swept.plot("operations per second", |outcome| outcome.per_second);
        let latency = swept.plot("median latency, ms", |outcome| outcome.median_ms);
        let plots = [("throughput", throughput), ("latency", latency), ("compared", swept.beside())];
        plots.map(|(kind, plot)| (format!("{}-{kind}", swept.name), plot)).into()
    }

    fn rows(swept: &Swept<Self>, point: &Point, outcome: &Outcome) -> String {
        let Outcome { per_second, median_ms, mean_ms, little, fast, messages, .. } = outcome;
        let (figure, series, at) = (swept.name, &point.series, point.at);
        format!(
            "\"{figure}\",\"{series}\",{at},{per_second:.1},{median_ms:.2},{mean_ms:.2},{little:.4},{fast:.3},{messages:.0}\n"
        )
    }

    fn written(point: &Point, outcome: &Outcome) -> SbftPoint {
        SbftPoint {
            series: point.series.clone(),
            at: point.at,
            replicas: point.setting.n(),
            f: point.setting.f,
            c: point.setting.c,
            topology: name_of(TOPOLOGIES, &point.setting.topology),
            clients: point.setting.clients,
            crashed: point.setting.crashed,
            operations_per_request: point.setting.workload.operations,
            seed: point.setting.seed,
            outcome: *outcome,
        }
    }
}

/// Width of the names of lines.
fn width(swept: &Swept<Figure>) -> usize {
    swept.points.iter().map(|point| point.series.chars().count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{
        super::evaluation::{csv, to_json},
        *,
    };
    use phalanx_lab::report::svg::Origin;

    #[test]
    fn a_point_has_a_table_plots_and_json() {
        let setting = Setting { f: 1, c: 1, ..Setting::PAPER };
        let point = || vec![Point::new("sbft", 2.0, setting)];
        let swept = Swept::<Figure>::run(None, "point", point(), &ui::immediate()).expect("possible");
        let text = swept.table();
        assert!(text.contains("sbft") && text.contains("clients  operations per second"), "{text}");
        assert!(Figure::plots(&swept).is_empty());
        let (of, outcome) = single(&swept).expect("no figure's");
        let said = stated(of, outcome);
        assert!(
            said.starts_with("sbft, 6 replicas (f = 1, c = 1) on a continent, 2 clients") && !said.contains("paper"),
            "{said}"
        );
        assert!(text.contains("40 measured requests of each client, seed 1."), "{text}");
        assert_eq!(csv(core::slice::from_ref(&swept)).lines().count(), 2);
        let value = to_json(core::slice::from_ref(&swept));
        assert_eq!(value["figures"][0]["points"][0]["replicas"], 6);
        let swept = Swept { figure: Some(Figure::Single), ..swept };
        let plots = Figure::plots(&swept);
        assert!(plots.len() == 3 && plots[1].1.standalone(&Origin::default()).contains("<svg"));
    }
}
