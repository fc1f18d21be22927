//! `bench run`: a workload through the whole engine, once per executor and repetition.

mod build;

pub(crate) use build::run as build;

use crate::{
    args::{BenchArgs, ExecutorKind, Switch, threads, word},
    drive::{self, Setup, Timed},
    exit, host, memory, oracle,
    output::command,
    profile,
    result::{BenchResult, Cpu, Integrity, Parallelism, Resources, Run, SCHEMA, Scope, Throughput},
    steady,
    trace::Ended,
    ui::Ui,
};
use anyhow::Context as _;
use phalanx_workloads::Workload;

/// Points of the plot over time.
const SERIES_POINTS: usize = 120;

/// Bytes that the engine and the oracle keep per account or slot: key, value, hash, index, twig, and an oracle's copy.
const STATE_BYTES: u64 = 2 * 320;
/// Bytes per transaction: a result of the engine, one of the oracle, indices and sets in flight.
pub(crate) const TX_BYTES: u64 = 2 * 400;

/// Runs the benchmark that `args` describe.
pub(crate) fn run(args: &BenchArgs, ui: &Ui) -> anyhow::Result<BenchResult> {
    args.check()?;
    memory::touch(args.touch)?;
    let threads = threads(args.threads)?;
    let workload = workload(args, TX_BYTES, ui)?;
    let mut txs = Vec::with_capacity(args.load.txs as usize);
    workload.transactions().fill(&mut txs, args.load.txs as usize);
    let signed = match args.signatures {
        Switch::Off => Vec::new(),
        Switch::On => {
            let spinner = ui.spinner("signing");
            let signed = workload.accounts().sign(&txs).context("signing")?;
            spinner.finish_and_clear();
            signed
        }
    };
    let setup = Setup { args, workload: &*workload, txs: &txs, signed: &signed, threads, gate: None };

    // The first run on the DAG decides order and boundaries; all others, and the oracle, run exactly its blocks.
    let mut blocks: Option<Vec<Vec<u32>>> = None;
    if !args.executors.contains(&ExecutorKind::Dag) {
        let unsigned = Setup { signed: &[], ..setup };
        let planned = drive::run(&unsigned, ExecutorKind::Dag, threads, &crate::args::Store::Mem, None, ui)?;
        blocks = Some(orders(&planned));
    }
    let mut truth = None;
    let mut runs = Vec::new();
    let mut tags = Vec::new();
    let total = args.runs * args.executors.len();
    let mut executors = args.executors.clone();
    // The DAG goes first in each round.
    executors.sort_by_key(|executor| *executor != ExecutorKind::Dag);
    'rounds: for _ in 0..args.runs {
        for executor in &executors {
            let store = match args.store.path() {
                Some(path) if total > 1 => args.store.at(path.join(format!("{}-{}", runs.len() + 1, word(*executor)))),
                _ => args.store.clone(),
            };
            let fixed = blocks.as_deref().filter(|_| *executor != ExecutorKind::Dag);
            let workers = if *executor == ExecutorKind::Sequential { 1 } else { threads };
            let timed = drive::run(&setup, *executor, workers, &store, fixed, ui)?;
            let order = blocks.get_or_insert_with(|| orders(&timed));
            if truth.is_none() && !timed.blocks.is_empty() {
                truth = Some(oracle::consult(&setup, args.oracle, order, ui)?);
            }
            let verdict = oracle::judge(truth.as_ref().and_then(Option::as_ref), &timed);
            let interrupted = timed.interrupted || ui.stopped();
            runs.push(report(&timed, verdict));
            if interrupted {
                tags.push("interrupted".to_owned());
                break 'rounds;
            }
        }
    }
    // Of a run that was stopped nobody knows where it was going.
    if tags.is_empty() && runs.iter().any(|run| run.steady.is_some_and(|steady| steady.steady == Some(false))) {
        tags.push("not-steady".to_owned());
    }
    Ok(BenchResult {
        schema: SCHEMA,
        tool: host::tool(),
        host: host::host(args.store.path()),
        config: args.resolved(threads),
        scope: scope(args),
        runs,
        building: None,
        tags,
        command: command(),
    })
}

/// The worst thing that a result has to say, as an exit code.
pub(crate) fn code(results: &[BenchResult]) -> u8 {
    if results.iter().flat_map(|r| &r.runs).any(|run| run.throughput.is_none()) {
        exit::DIVERGENCE
    } else if results.iter().any(|r| r.tags.iter().any(|tag| tag == "interrupted")) {
        exit::INTERRUPTED
    } else {
        exit::OK
    }
}

/// The workload; `tx_bytes` are held per transaction beside it.
pub(crate) fn workload(args: &BenchArgs, tx_bytes: u64, ui: &Ui) -> anyhow::Result<Box<dyn Workload>> {
    let engine = args.load.accounts.saturating_mul(args.load.keys_per_account()).saturating_mul(STATE_BYTES);
    let engine = engine.saturating_add(args.load.txs.saturating_mul(tx_bytes));
    let load = args.transfers(host::memory_beside(engine)?);
    let bar = ui.bar("making accounts", load.accounts);
    let workload = args.load.workload(load, &|done| bar.set_position(done))?;
    bar.finish_and_clear();
    Ok(workload)
}

/// The members of each block, in order.
pub(crate) fn orders(timed: &Timed) -> Vec<Vec<u32>> {
    timed.blocks.iter().map(|block| block.order.clone()).collect()
}

/// A run as results show it.
fn report(timed: &Timed, (oracle, detail): (&str, String)) -> Run {
    let succeeded = timed.count(Ended::Succeeded);
    let invalid = timed.count(Ended::Skipped);
    let seconds = timed.wall.as_secs_f64();
    let root = timed.blocks.last().map(|block| block.state_root).unwrap_or_default();
    let throughput = (oracle != "mismatch").then(|| Throughput {
        tps: succeeded as f64 / seconds,
        succeeded,
        reverted: timed.count(Ended::Failed),
        invalid,
        gas_per_s: timed.gas_used() as f64 / seconds,
        seconds,
    });
    Run {
        executor: timed.executor.clone(),
        threads: timed.threads,
        pinned: timed.pinned.clone(),
        throughput,
        cpu: Cpu { us_core_per_tx: timed.cpu_ns as f64 / 1e3 / succeeded.max(1) as f64 },
        block_latency_ms: timed.latency(),
        stages_ns_per_tx: timed.stages(succeeded),
        stages_blocks: (1..timed.blocks.len() as u64).contains(&timed.stages_blocks).then_some(timed.stages_blocks),
        parallelism: Parallelism {
            tlp_frames: timed.frames_tlp,
            tlp_dag: timed.dag_tlp(),
            escapes: timed.escapes,
            reexecutions: timed.reexecutions,
            replayed: timed.replayed,
            fallback_blocks: timed.fallback_blocks,
        },
        resources: Resources {
            rss_peak_bytes: host::rss_peak(),
            disk_written_bytes: timed.disk_written,
            db_bytes: timed.db_bytes,
        },
        integrity: Integrity { state_root: root.to_string(), oracle: oracle.into(), detail },
        series: timed.series(SERIES_POINTS),
        per_second: steady::per_second(&timed.succeeded(), &timed.commits),
        steady: Some(steady::judge(&timed.succeeded(), &timed.commits)),
        balance: timed.balance(),
    }
}

fn scope(args: &BenchArgs) -> Scope {
    let signatures = args.signatures == Switch::On;
    let mut disabled_rules = Vec::new();
    if !signatures {
        disabled_rules.push("signatures".to_owned());
    }
    let fafo = args.profile.as_deref() == Some(profile::FAFO_PAPER);
    // The workloads' chain has no beacon chain above it.
    disabled_rules.extend(["system-calls", "withdrawals", "header-hash"].map(str::to_owned));
    let durability = if args.store == crate::args::Store::Mem { "none".into() } else { word(args.durability) };
    Scope {
        signatures,
        nonces: true,
        fees: true,
        gas_limit: true,
        receipts: true,
        root_interval_blocks: 1,
        durability,
        access_source: word(args.access),
        order: word(args.order),
        touched_gib: args.touch,
        disabled_rules,
        kept_rules: if fafo { profile::KEPT.map(str::to_owned).into() } else { Vec::new() },
    }
}
