//! `bench schedule --figure fafo-4`: parallelism gained by reordering, by contention (FAFO §3.2, Figure 4).

use super::{
    given,
    load::{Load, Parallelism, frame, intern},
};
use crate::{
    config::LoadConfig,
    doctor,
    machine::host,
    report::Output,
    result::{Host, SCHEMA, Tool},
    ui::Ui,
    written::{self, Named},
};
use phalanx::{
    BlockLimits,
    access::Interner,
    parascheduler::{Dag, DagBuilder},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Probabilities that the hot side of a transfer is hot, and numbers of hot accounts.
const ALPHAS: [f64; 5] = [0.0, 0.1, 0.5, 0.9, 0.99];
const GAMMAS: [u64; 3] = [100, 1_000, 10_000];

/// The output.
#[derive(Serialize, JsonSchema)]
struct Grid {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// Program that measured.
    tool: Tool,
    /// Machine that it ran on.
    host: Host,
    /// Every flag as resolved, without those of the grid.
    config: Map<String, Value>,
    /// Cells of the grid.
    rows: Vec<Cell>,
}

/// A cell of the grid.
#[derive(Serialize, JsonSchema)]
struct Cell {
    /// Probability that the hot side of a transfer is hot.
    alpha: f64,
    /// Number of hot accounts.
    gamma: u64,
    /// Parallelism in the order of arrival.
    given: Parallelism,
    /// Parallelism in free order.
    free: Parallelism,
}

/// Schema of what is written.
pub(super) fn schema() -> Named {
    written::schema::<Grid>("bench-schedule-figure", "bench schedule --figure --json")
}

/// Measures the grid over the load of `config`; `None` if the user stopped it.
///
/// # Errors
/// If the settings describe no load, or memory is short.
pub fn run(config: &LoadConfig, ui: &Ui) -> anyhow::Result<Option<Output>> {
    config.check()?;
    let mut rows = Vec::new();
    for alpha in ALPHAS {
        for gamma in GAMMAS {
            if ui.stopped() {
                return Ok(None);
            }
            rows.push(measure(&LoadConfig { alpha, gamma, zipf: None, ..config.clone() }, ui)?);
        }
    }
    let mut resolved = config.resolved();
    resolved.remove("alpha");
    resolved.remove("gamma");
    resolved.insert("figure".into(), json!("fafo-4"));
    let (tool, host) = (host::tool(), doctor::host(None));
    let text = table(&rows);
    let value = written::value(&Grid { schema: SCHEMA, tool, host, config: resolved, rows });
    Ok(Some(Output { value, claim: None, text, csv: None, picture: None }))
}

fn measure(load: &LoadConfig, ui: &Ui) -> anyhow::Result<Cell> {
    let Load { sets, flat, salt } = Load::new(load, ui)?;
    let (blocks, frames) = frame(&sets, &flat, BlockLimits { max_txs: load.block_txs, max_gas: u64::MAX });
    let (mut interner, mut builder, mut dag) = (Interner::new(salt), DagBuilder::new(), Dag::default());
    let mut critical_path = 0;
    for block in &blocks {
        interner.clear();
        let ids = intern(&mut interner, &sets, &flat, block);
        builder.build(&ids, interner.len(), &mut dag);
        critical_path += dag.critical_path();
    }
    Ok(Cell {
        alpha: load.alpha,
        gamma: load.gamma,
        given: given::parallelism(&sets, &flat, salt, load.block_txs),
        free: Parallelism::new(sets.len(), frames, critical_path),
    })
}

fn table(rows: &[Cell]) -> String {
    let mut text = format!("{:>16} {:>28} {:>28}\n", "", "transactions ÷ frames", "÷ critical path");
    text.push_str(&format!("{:>6} {:>9} ", "alpha", "gamma"));
    text.push_str(&[" given", "free", "gain"].map(|title| format!("{title:>9}")).concat());
    text.push_str("  ");
    text.push_str(&["given", "free", "gain"].map(|title| format!("{title:>9}")).concat());
    text.push('\n');
    for Cell { alpha, gamma, given, free } in rows {
        text.push_str(&format!("{alpha:>6} {gamma:>9} "));
        for (given, free) in [(given.tlp_frames, free.tlp_frames), (given.tlp_dag, free.tlp_dag)] {
            text.push_str(&format!("{given:>9.1}{free:>9.1}{:>8.1}× ", free / given));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}
