//! `bench schedule --figure fafo-4`: parallelism gained by reordering, by contention (FAFO §3.2, Figure 4).

use super::{Load, Parallelism, frame, given, intern};
use crate::{config::LoadConfig, doctor, machine::host, report::Output, result::SCHEMA, ui::Ui};
use phalanx::{
    BlockLimits,
    access::Interner,
    parascheduler::{Dag, DagBuilder},
};
use serde_json::json;

/// Probabilities that the hot side of a transfer is hot, and numbers of hot accounts.
const ALPHAS: [f64; 5] = [0.0, 0.1, 0.5, 0.9, 0.99];
const GAMMAS: [u64; 3] = [100, 1_000, 10_000];

struct Row {
    alpha: f64,
    gamma: u64,
    given: Parallelism,
    free: Parallelism,
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
            rows.push(measure(&LoadConfig { alpha, gamma, ..config.clone() }, ui)?);
        }
    }
    let row = |Row { alpha, gamma, given, free }: &Row| {
        let both = |of: &Parallelism| json!({ "tlp_frames": of.frames, "tlp_dag": of.dag });
        json!({ "alpha": alpha, "gamma": gamma, "given": both(given), "free": both(free) })
    };
    let mut resolved = config.resolved();
    resolved.remove("alpha");
    resolved.remove("gamma");
    resolved.insert("figure".into(), json!("fafo-4"));
    let values: Vec<_> = rows.iter().map(row).collect();
    let value = json!({
        "schema": SCHEMA, "tool": host::tool(), "host": doctor::host(None), "config": resolved, "rows": values,
    });
    Ok(Some(Output { value, text: table(&rows), csv: None, picture: None }))
}

fn measure(load: &LoadConfig, ui: &Ui) -> anyhow::Result<Row> {
    let Load { sets, flat, salt } = Load::new(load, ui)?;
    let (blocks, frames) = frame(&sets, &flat, BlockLimits { max_txs: load.block_txs, max_gas: u64::MAX });
    let (mut interner, mut builder, mut dag) = (Interner::new(salt), DagBuilder::new(), Dag::default());
    let mut critical_path = 0;
    for block in &blocks {
        interner.clear();
        let ids = intern(&mut interner, &sets, &flat, &block.order);
        builder.build(&ids, interner.len(), &mut dag);
        critical_path += dag.critical_path();
    }
    Ok(Row {
        alpha: load.alpha,
        gamma: load.gamma,
        given: given::parallelism(&sets, &flat, salt, load.block_txs),
        free: Parallelism::new(sets.len(), frames, critical_path),
    })
}

fn table(rows: &[Row]) -> String {
    let mut text = format!("{:>16} {:>28} {:>28}\n", "", "transactions ÷ frames", "÷ critical path");
    text.push_str(&format!("{:>6} {:>9} ", "alpha", "gamma"));
    text.push_str(&[" given", "free", "gain"].map(|title| format!("{title:>9}")).concat());
    text.push_str("  ");
    text.push_str(&["given", "free", "gain"].map(|title| format!("{title:>9}")).concat());
    text.push('\n');
    for Row { alpha, gamma, given, free } in rows {
        text.push_str(&format!("{alpha:>6} {gamma:>9} "));
        for (given, free) in [(given.frames, free.frames), (given.dag, free.dag)] {
            text.push_str(&format!("{given:>9.1}{free:>9.1}{:>8.1}× ", free / given));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}
