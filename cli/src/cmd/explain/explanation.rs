//! Flags of `explain`, and an explanation as text, picture and graph.

use super::{
    graph::Heat,
    source::{self, Explained},
};
use crate::{exit, output, ui};
use clap::{ArgAction, Args};
use phalanx::{
    Order, Traces,
    paralyze::{Layers, StateKey},
    revm::primitives::hardfork::SpecId,
};
use phalanx_lab::{
    config::{LoadConfig, RunConfig, choice, heading},
    report::{
        svg::{self, Layout, Origin},
        text,
    },
    ui::Ui,
};
use phalanx_workloads::contract_name;
use std::{
    cmp::Reverse,
    collections::HashMap,
    path::{Path, PathBuf},
};

/// Maximum number of listed transactions of the critical path.
const TOLD: usize = 12;

/// Flags of a load, which conflict with a file or folder. By the names of their groups, an error would list all of them.
const LOAD: [&str; 20] = [
    "workload",
    "accounts",
    "txs",
    "block_txs",
    "alpha",
    "gamma",
    "hot",
    "zipf",
    "pools",
    "hot_pool_share",
    "mix",
    "seed",
    "order",
    "access",
    "threads",
    "fast_path",
    "traces",
    "evm_spec",
    "block_gas",
    "profile",
];

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Folder of a recorded block, or a result of `bench run --json`, whose load is generated again [default: the load of the
    /// flags]
    #[arg(value_name = "FILE|DIR", conflicts_with_all = LOAD)]
    of: Option<PathBuf>,
    #[command(flatten)]
    load: LoadConfig,
    #[command(flatten)]
    engine: EngineArgs,
    /// Number of the block in a load [default: 1]
    #[arg(long, help_heading = heading::LOAD)]
    block: Option<u64>,
    /// Number of hottest keys to list
    #[arg(long, default_value_t = 10, help_heading = heading::OUTPUT)]
    keys: usize,
    /// Write the explanation as JSON, `-` for stdout
    #[arg(long, value_name = "FILE|-", help_heading = heading::OUTPUT)]
    json: Option<PathBuf>,
    /// Write the picture as SVG
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    svg: Option<PathBuf>,
    /// Write the graph for Graphviz
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    dot: Option<PathBuf>,
}

/// Settings of the engine that a block's graph and execution depend on. A state is in memory, and nothing is measured.
#[derive(Debug, Args)]
struct EngineArgs {
    /// Order of the transactions
    #[arg(long, value_parser = choice::<Order>(), default_value = "free", help_heading = heading::ENGINE)]
    order: Order,
    /// Source of access sets
    #[arg(long, value_parser = choice::<Layers>(), default_value = "static", help_heading = heading::ENGINE)]
    access: Layers,
    /// Worker threads [default: one per core]
    #[arg(long, help_heading = heading::ENGINE)]
    threads: Option<usize>,
    /// Execute plain transfers of the DAG without the EVM
    #[arg(long, action = ArgAction::Set, value_parser = choice::<bool>(), default_value = "on", help_heading = heading::ENGINE)]
    fast_path: bool,
    /// Replay contract calls of the DAG from recorded traces; `check` interprets them as well and compares
    #[arg(long, value_parser = choice::<Traces>(), default_value = "on", help_heading = heading::ENGINE)]
    traces: Traces,
    /// Rules of the EVM
    #[arg(long, value_parser = choice::<SpecId>(), default_value = "osaka", help_heading = heading::ENGINE)]
    evm_spec: SpecId,
    /// Gas limit of a block, by the sum of its transactions' limits
    #[arg(long, default_value_t = 30_000_000_000, help_heading = heading::ENGINE)]
    block_gas: u64,
    /// Profile of flags, as of `bench run`; flags that only say how a run is measured are left out
    #[arg(long, value_name = "FILE.toml|NAME", help_heading = heading::ENGINE)]
    profile: Option<String>,
}

impl EngineArgs {
    /// The run whose block is explained.
    fn config(&self, load: &LoadConfig) -> RunConfig {
        let Self { order, access, threads, fast_path, traces, evm_spec, block_gas, ref profile } = *self;
        let (load, profile) = (load.clone(), profile.clone());
        RunConfig {
            load,
            order,
            access,
            threads,
            fast_path,
            traces,
            evm_spec,
            block_gas,
            profile,
            ..RunConfig::default()
        }
    }
}

impl ExplainArgs {
    pub(in crate::cmd) fn run(&self) -> anyhow::Result<u8> {
        explain(self, &ui::measuring())
    }
}

/// Explains a block, and shows it.
fn explain(args: &ExplainArgs, ui: &Ui) -> anyhow::Result<u8> {
    let explained = match &args.of {
        Some(path) => source::read(path, args.block, ui)?,
        None => {
            ui::warn_of_idle(args.load.idle(), ui);
            source::made(&args.engine.config(&args.load), args.block.unwrap_or(1), ui)?
        }
    };
    let hottest = explained.graph.hottest(args.keys);
    let stdout = args.json.as_deref() == Some(Path::new("-"));
    if let Some(path) = &args.json {
        output::json(path, &explained.value(&hottest))?;
    }
    if !stdout {
        output::print(&explained.table(&hottest))?;
    }
    let picture = || explained.picture().standalone(&Origin::here(&output::command()));
    let dot = || explained.dot();
    for (path, draw) in [(&args.svg, &picture as &dyn Fn() -> String), (&args.dot, &dot)] {
        if let Some(path) = path {
            output::whole(path, draw().as_bytes())?;
        }
    }
    Ok(exit::OK)
}

impl Explained {
    pub(super) const fn txs(&self) -> usize {
        self.graph.dag.len()
    }

    /// Transactions ÷ longest chain, and gas ÷ gas of the critical path.
    pub(super) fn parallelism(&self) -> (f64, f64) {
        let gas = self.graph.total_gas() as f64 / self.graph.path_gas().max(1) as f64;
        (self.graph.dag.tlp(), gas)
    }

    /// Estimated time of the critical path in nanoseconds: its share of the gas × the time of sequential revm.
    pub(super) fn path_ns(&self) -> f64 {
        self.sequential_ns * self.graph.path_gas() as f64 / self.graph.total_gas().max(1) as f64
    }

    fn table(&self, hottest: &[Heat]) -> String {
        let graph = &self.graph;
        let (by_txs, by_gas) = self.parallelism();
        let ms = |ns: f64| text::figure(ns / 1e6);
        let mut out = format!(
            "{}: {}, {}, {} gas. Edges are {}.\n\
             longest chain {}: {} ÷ chain = {}\n\
             critical path {} with {} gas: all gas ÷ its = {}; by gas about {} ms of the {} ms that sequential revm takes\n\
             escapes {}, executions beyond the first {}{}\n",
            self.what,
            text::counted(self.txs(), "transaction"),
            text::counted(graph.keys.len(), "key"),
            text::count(graph.total_gas() as f64),
            self.sets,
            text::counted(graph.dag.critical_path(), "transaction"),
            self.txs(),
            text::figure(by_txs),
            text::counted(graph.path.len(), "transaction"),
            text::count(graph.path_gas() as f64),
            text::figure(by_gas),
            ms(self.path_ns()),
            ms(self.sequential_ns),
            self.escapes,
            self.reexecutions,
            if self.fallback { "; the block left the DAG" } else { "" }
        );
        if let Some(cut) = self.cut() {
            out.push_str(&format!("{cut}\n"));
        }
        out.push_str(&format!(
            "\n{:>8} {:>8} {:>7} {:>7} {:>7}  hottest keys\n",
            "chain", "txs", "writes", "reads", "credits"
        ));
        for heat in hottest.iter().filter(|heat| heat.txs > 0) {
            out.push_str(&format!(
                "{:>8} {:>8} {:>7} {:>7} {:>7}  {} ({} of all)\n",
                heat.chain,
                heat.txs,
                heat.writes,
                heat.reads,
                heat.credits,
                name(&graph.keys[heat.key.index()]),
                text::percent(heat.txs as f64 / self.txs().max(1) as f64)
            ));
        }
        out.push_str(&format!("\n{:>8} {:>12}  critical path: waits for the one above because of\n", "tx", "gas"));
        for (index, tx) in graph.path.iter().take(TOLD).enumerate() {
            let before = index.checked_sub(1).map(|before| graph.path[before]);
            let key = before.and_then(|before| graph.between(before, *tx)).map_or_else(String::new, name);
            out.push_str(&format!("{tx:>8} {:>12}  {key}\n", text::count(graph.gas[*tx as usize] as f64)));
        }
        if graph.path.len() > TOLD {
            out.push_str(&format!("{:>8} {:>12}  and {} more\n", "..", "", graph.path.len() - TOLD));
        }
        out
    }

    fn picture(&self) -> svg::Picture {
        let graph = &self.graph;
        let (by_txs, by_gas) = self.parallelism();
        let title = format!("Conflict graph: {}", self.what);
        let subtitle = format!(
            "{}; by longest chain {} run at once, by gas {}; further right waits longer; edges are {}",
            text::counted(self.txs(), "transaction"),
            text::figure(by_txs),
            text::figure(by_gas),
            self.sets
        );
        let layout = Layout { levels: &graph.level, edges: &graph.edges, path: &graph.path };
        let picture = svg::graph(&title, &subtitle, layout, |tx| {
            let (from, to) = self.parties[tx as usize];
            let to = to.map_or_else(|| "a new contract".to_owned(), |to| to.to_string());
            format!("transaction {tx}\n{from} to {to}\n{} gas", graph.gas[tx as usize])
        });
        match self.most_waits() {
            Some(note) => picture.noted(&note),
            None => picture,
        }
    }

    /// Sentence on the key that most transactions of the critical path wait for; `None` if none waits.
    fn most_waits(&self) -> Option<String> {
        let waits = self.graph.path.windows(2).filter_map(|pair| self.graph.between(pair[0], pair[1]));
        // Number of waits for each key, and the first of them.
        let mut counts: HashMap<&StateKey, (usize, Reverse<usize>)> = HashMap::new();
        for (at, key) in waits.enumerate() {
            counts.entry(key).or_insert((0, Reverse(at))).0 += 1;
        }
        let all: usize = counts.values().map(|(count, _)| count).sum();
        let (key, (most, _)) = counts.into_iter().max_by_key(|(_, of)| *of)?;
        Some(format!("On the critical path {most} of {all} waits are for {}.", name(key)))
    }

    /// Note that edges are missing from list and picture, if so.
    fn cut(&self) -> Option<String> {
        let (listed, all) = (self.graph.edges.len(), self.graph.edges_total);
        ((listed as u64) < all).then(|| {
            let (listed, all) = (text::count(listed as f64), text::count(all as f64));
            format!("the first {listed} of {all} edges are listed and drawn")
        })
    }

    /// Graph in Graphviz's language, for `dot -Tsvg`. O(transactions + edges).
    fn dot(&self) -> String {
        let graph = &self.graph;
        let mut out =
            String::from("digraph block {\n  rankdir=LR;\n  node [shape=box, style=filled, fillcolor=white];\n");
        if let Some(cut) = self.cut() {
            out.push_str(&format!("  // {cut}\n"));
        }
        let mut critical = vec![false; graph.gas.len()];
        graph.path.iter().for_each(|tx| critical[*tx as usize] = true);
        for (tx, gas) in graph.gas.iter().enumerate() {
            let colour = if critical[tx] { ", fillcolor=orange" } else { "" };
            out.push_str(&format!("  {tx} [label=\"{tx}\\n{gas}\"{colour}];\n"));
        }
        graph.edges.iter().for_each(|(from, to)| out.push_str(&format!("  {from} -> {to};\n")));
        out.push_str("}\n");
        out
    }
}

/// A key, for people.
pub(super) fn name(key: &StateKey) -> String {
    let of = |address| contract_name(address).map_or_else(|| address.to_string(), |name| format!("{name} ({address})"));
    match key {
        StateKey::Basic(address) => format!("balance and nonce of {}", of(address)),
        StateKey::Code(address) => format!("code of {}", of(address)),
        StateKey::Slot(address, slot) => format!("slot {slot:#x} of {}", of(address)),
    }
}

#[cfg(test)]
mod tests {
    use crate::{cmd::Cli, flags::profile};
    use clap::{CommandFactory as _, Parser as _, error::ErrorKind};

    #[test]
    fn a_file_conflicts_with_every_flag_of_a_load() {
        // Flags of the output.
        let beside = ["json", "svg", "dot", "keys", "block", "help"];
        let mut command = Cli::command();
        command.build();
        let explain = command.find_subcommand("explain").expect("a command");
        let load = explain.get_arguments().filter(|arg| arg.get_long().is_some_and(|long| !beside.contains(&long)));
        let mut tried = 0;
        for arg in load {
            let long = arg.get_long().expect("a flag");
            let default = arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
            let value = default.unwrap_or_else(|| "1".to_owned());
            let line = ["phalanx", "explain", "result.json", &format!("--{long}={value}")].map(str::to_owned);
            let kind = Cli::try_parse_from(&line).map_or_else(|error| Some(error.kind()), |_| None);
            assert_eq!(kind, Some(ErrorKind::ArgumentConflict), "{line:?}");
            tried += 1;
        }
        assert_eq!(tried, super::LOAD.len());
        assert!(Cli::try_parse_from(["phalanx", "explain", "result.json", "--block", "2", "--json", "-"]).is_ok());
    }

    #[test]
    fn flags_of_a_measurement_are_not_offered() {
        let mut command = Cli::command();
        command.build();
        let flags = |path: &[&str]| -> Vec<String> {
            let found = path.iter().fold(&command, |at, name| at.find_subcommand(name).expect("a command"));
            found.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
        };
        let (run, explain) = (flags(&["bench", "run"]), flags(&["explain"]));
        for flag in profile::MEASUREMENT {
            assert!(run.iter().any(|known| known == flag) && !explain.iter().any(|known| known == flag), "{flag}");
        }
    }
}
