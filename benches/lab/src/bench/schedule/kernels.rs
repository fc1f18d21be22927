//! Framing, interning, building and dispatch, each timed alone.

use super::{
    given,
    load::{Load, Parallelism, frame, intern},
};
use crate::{
    config::{LoadConfig, heading, threads},
    doctor,
    error::Usage,
    machine::host,
    report::Output,
    result::{Host, SCHEMA, Tool},
    ui::Ui,
    written::{self, Named},
};
use clap::Args;
use phalanx::{
    BlockLimits,
    access::Interner,
    parascheduler::{Dag, DagBuilder, TxIndex, Verdict, Workers},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::{hint::black_box, time::Instant};

/// Millions of transactions per second of one kernel in each repetition, and its median.
struct Rate(Vec<f64>);

impl Rate {
    fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
    }
}

/// The output.
#[derive(Serialize, JsonSchema)]
struct Scheduled {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// Program that measured.
    tool: Tool,
    /// Machine that it ran on.
    host: Host,
    /// Every flag as resolved.
    config: Map<String, Value>,
    /// Median transactions per second.
    txs_per_s: Kernels<f64>,
    /// Millions of transactions per second in each repetition.
    runs_mtxs_per_s: Kernels<Vec<f64>>,
    /// Transactions ÷ frames, in free order.
    tlp_frames: f64,
    /// Transactions ÷ critical path, in free order.
    tlp_dag: f64,
    /// The same in the order of arrival.
    given: Parallelism,
    /// Blocks of the load.
    blocks: usize,
    /// Frames of the load.
    frames: usize,
}

/// A figure of each kernel.
#[derive(Serialize, JsonSchema)]
struct Kernels<T> {
    /// Framing and forming of blocks, on one core.
    frame: T,
    /// Interning of keys, on one core.
    intern: T,
    /// Building of the DAG from ids, on one core.
    dag: T,
    /// Dispatch of empty jobs, on all threads.
    dispatch: T,
}

impl<T> Kernels<T> {
    /// A figure of each kernel by its number.
    fn each(of: impl Fn(usize) -> T) -> Self {
        Self { frame: of(0), intern: of(1), dag: of(2), dispatch: of(3) }
    }
}

/// Schema of what is written.
pub(super) fn schema() -> Named {
    written::schema::<Scheduled>("bench-schedule", "bench schedule --json")
}

/// Settings of a run of framing and DAG alone.
#[derive(Clone, Debug, Args)]
pub struct ScheduleConfig {
    /// The transactions.
    #[command(flatten)]
    pub load: LoadConfig,
    /// Repetitions; the median is shown
    #[arg(long, default_value_t = 5, help_heading = heading::MEASURE)]
    pub runs: usize,
    /// Worker threads of the dispatch [default: one per core]
    #[arg(long, help_heading = heading::MEASURE)]
    pub threads: Option<usize>,
}

/// Measures framing, interning, DAG build and dispatch; `None` if the user stopped it.
///
/// # Errors
/// If the settings describe no run, or memory is short.
pub fn run(config: &ScheduleConfig, ui: &Ui) -> anyhow::Result<Option<Output>> {
    config.load.check()?;
    let threads = threads(config.threads)?;
    let runs = config.runs;
    if runs == 0 || runs > 1000 {
        return Err(Usage(format!("--runs must be between 1 and 1000, not {runs}")).into());
    }
    let Load { sets, flat, salt } = Load::new(&config.load, ui)?;

    let (mut framing, mut interning, mut building, mut dispatch) =
        (Rate(vec![]), Rate(vec![]), Rate(vec![]), Rate(vec![]));
    let workers = Workers::new(threads)?;
    let bar = ui.bar("scheduling", runs as u64);
    let mut blocks = Vec::new();
    let mut critical_path = 0;
    let mut frames = 0;
    for _ in 0..runs {
        if ui.stopped() {
            return Ok(None);
        }
        let limits = BlockLimits { max_txs: config.load.block_txs, max_gas: u64::MAX };
        let rate = |seconds: f64| sets.len() as f64 / seconds / 1e6;
        let start = Instant::now();
        (blocks, frames) = frame(&sets, &flat, limits);
        framing.0.push(rate(start.elapsed().as_secs_f64()));

        let (mut intern_s, mut dag_s, mut run_s) = (0.0, 0.0, 0.0);
        let (mut interner, mut builder, mut dag) = (Interner::new(salt), DagBuilder::new(), Dag::default());
        critical_path = 0;
        for block in &blocks {
            let start = Instant::now();
            interner.clear();
            let ids = intern(&mut interner, &sets, &flat, block);
            intern_s += start.elapsed().as_secs_f64();

            let start = Instant::now();
            builder.build(&ids, interner.len(), &mut dag);
            dag_s += start.elapsed().as_secs_f64();

            let start = Instant::now();
            let mut locals = vec![0u64; threads];
            let report = workers.run(&dag, &mut locals, &|local: &mut u64, tx: TxIndex| {
                *local = black_box(*local + u64::from(tx.0));
                Verdict::Done
            });
            run_s += start.elapsed().as_secs_f64();
            anyhow::ensure!(report.is_clean(), "an empty job escaped");
            critical_path += dag.critical_path();
        }
        interning.0.push(rate(intern_s));
        building.0.push(rate(dag_s));
        dispatch.0.push(rate(run_s));
        bar.inc(1);
    }
    bar.finish_and_clear();

    let placed: usize = blocks.iter().map(Vec::len).sum();
    anyhow::ensure!(placed == sets.len(), "framing lost transactions");
    let Parallelism { tlp_frames, tlp_dag } = Parallelism::new(sets.len(), frames, critical_path);
    let given = given::parallelism(&sets, &flat, salt, config.load.block_txs);
    // In the order of `Kernels`.
    let rates = [
        ("frame", "frame and form blocks, 1 core", &framing),
        ("intern", "intern keys, 1 core", &interning),
        ("dag", "build the DAG from ids, 1 core", &building),
        ("dispatch", "dispatch empty jobs, all threads", &dispatch),
    ];
    let mut resolved = config.load.resolved();
    resolved.insert("runs".into(), json!(runs));
    resolved.insert("threads".into(), json!(threads));
    let value = written::value(&Scheduled {
        schema: SCHEMA,
        tool: host::tool(),
        host: doctor::host(None),
        config: resolved,
        txs_per_s: Kernels::each(|kernel| rates[kernel].2.median() * 1e6),
        runs_mtxs_per_s: Kernels::each(|kernel| rates[kernel].2.0.clone()),
        tlp_frames,
        tlp_dag,
        given,
        blocks: blocks.len(),
        frames,
    });
    let mut text = format!("{:34} {:>12}\n", "", "M txs/s");
    for (_, what, rate) in rates {
        text.push_str(&format!("{what:34} {:>12.1}\n", rate.median()));
    }
    text.push_str(&format!("\n{:34} {:>12} {:>12}\n", "", "free", "given"));
    let lines = [("frames", tlp_frames, given.tlp_frames), ("critical path", tlp_dag, given.tlp_dag)];
    for (what, free, given) in lines {
        text.push_str(&format!("{:34} {free:>12.1} {given:>12.1}\n", format!("transactions ÷ {what}")));
    }
    Ok(Some(Output { value, claim: None, text, csv: None, picture: None }))
}
