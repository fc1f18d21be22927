//! `bench run`: a workload through the whole engine, once per executor and repetition.

use super::input;
use crate::{
    config::{FAFO_PAPER, FAFO_TABLE_1, KEPT_RULES, OracleKind, Pace, RunConfig, Store, threads, word},
    doctor,
    error::{Interrupted, Usage},
    machine::{host, memory, temporary::write_whole},
    result::{BenchResult, Cpu, INTERRUPTED, Integrity, Parallelism, Reads, Resources, Run, SCHEMA, Scope, Throughput},
    run::{
        drive::{self, Purpose, Setup, Timed},
        oracle, place, timeline,
        trace::Ended,
    },
    steady,
    ui::Ui,
};
use anyhow::Context as _;
use phalanx::{Executor, merkle::Memory};
use phalanx_workloads::Workload;

/// Points of the plot over time.
const SERIES_POINTS: usize = 120;

/// Bytes that a state in memory keeps per account or slot: key, value, hash, index and twig.
const STATE_BYTES: u64 = 320;
/// Bytes that an engine with values on disk keeps per account or slot: its index.
const PAGED_BYTES: u64 = 16;
/// Bytes of a genesis in parts, and of blocks in flight, beside it.
const PAGED_BASE: u64 = 3 << 30;
/// Bytes per transaction: a result of the engine, one of the oracle, indices and sets in flight.
pub const TX_BYTES: u64 = 2 * 400;

/// Runs the benchmark of `config` on every executor and compares the results with the oracle's.
///
/// # Errors
/// If the settings describe no run, memory is short, or a run fails.
pub fn run(config: &RunConfig, ui: &Ui) -> anyhow::Result<BenchResult> {
    config.check()?;
    let machine = doctor::host(config.folder());
    memory::touch(config.touch)?;
    let threads = threads(config.threads)?;
    let states = if config.oracle == OracleKind::Off { 1 } else { 2 };
    let workload = workload(config, TX_BYTES, states, ui)?;
    place::make(config, &*workload, Vec::new(), threads, ui)?;
    let txs = input::transactions(&*workload, config.load.txs, ui)?;
    let signed = if config.signatures { input::sign(&*workload, &txs, ui)? } else { Vec::new() };
    let setup = Setup {
        config,
        workload: &*workload,
        txs: &txs,
        signed: &signed,
        threads,
        gate: None,
        purpose: Purpose::Measure,
    };

    // The first run on the DAG decides order and block boundaries; all other runs, and the oracle, execute exactly its blocks.
    let mut blocks: Option<Vec<Vec<u32>>> = None;
    if !config.executors.contains(&Executor::Dag) {
        let unsigned = Setup { signed: &[], purpose: Purpose::Plan, ..setup };
        let planned = drive::run(&unsigned, Executor::Dag, threads, &Store::Mem, None, ui)?;
        blocks = Some(orders(&planned));
    }
    if let Some(path) = &config.trace {
        // Before the runs: a file that cannot be written must not cost them.
        write_whole(path, b"{}").with_context(|| format!("writing {}", path.display()))?;
    }
    let (mut events, mut same, mut cut) = (Vec::new(), None, false);
    let mut truth = None;
    let mut runs = Vec::new();
    let mut tags = Vec::new();
    let total = config.runs * config.executors.len();
    let mut executors = config.executors.clone();
    // The DAG goes first in each round.
    executors.sort_by_key(|executor| *executor != Executor::Dag);
    'rounds: for _ in 0..config.runs {
        for executor in &executors {
            let store = match config.store.path() {
                Some(path) if total > 1 => {
                    config.store.at(path.join(format!("{}-{}", runs.len() + 1, word(*executor))))
                }
                _ => config.store.clone(),
            };
            let fixed = blocks.as_deref().filter(|_| *executor != Executor::Dag);
            let workers = if *executor == Executor::Sequential { 1 } else { threads };
            // After the first run, all others execute its blocks.
            let paced = Setup { config: same.as_ref().unwrap_or(config), ..setup };
            let timed = match drive::run(&paced, *executor, workers, &store, fixed, ui) {
                // The runs before are reported.
                Err(error) if error.is::<Interrupted>() && !runs.is_empty() => {
                    tags.push(INTERRUPTED.to_owned());
                    break 'rounds;
                }
                timed => timed?,
            };
            if config.pace.duration.is_some() && same.is_none() {
                let pace = Pace { duration: None, blocks: Some(timed.blocks.len()), ..config.pace.clone() };
                same = Some(RunConfig { pace, ..config.clone() });
                cut = timed.cut;
                blocks.iter_mut().for_each(|blocks| blocks.truncate(timed.blocks.len()));
            }
            if let Some(timeline) = &timed.timeline {
                let name = format!("run {}: {} on {} threads", runs.len() + 1, word(*executor), workers);
                events.extend(timeline.events(runs.len() + 1, &name));
            }
            let order = blocks.get_or_insert_with(|| orders(&timed));
            if truth.is_none() && !timed.blocks.is_empty() {
                truth = Some(oracle::consult(&setup, config.oracle, order, ui)?);
            }
            let verdict = oracle::judge(truth.as_ref().and_then(Option::as_ref), &timed);
            let interrupted = timed.interrupted || ui.stopped();
            runs.push(report(&timed, verdict));
            if interrupted {
                tags.push(INTERRUPTED.to_owned());
                break 'rounds;
            }
        }
    }
    if let Some(path) = &config.trace {
        tags.push("traced".to_owned());
        let written = write_whole(path, timeline::file(&events, &config.command).as_bytes());
        written.unwrap_or_else(|error| ui.warn(&format!("no timeline: {}: {error}", path.display())));
    }
    if cut {
        tags.push("cut".to_owned());
    } else if let Some(seconds) = config.pace.duration {
        ui.warn(&format!("the load ended before --duration {seconds}: more --txs fill it"));
    }
    // An interrupted run has no trend to judge.
    if !tags.iter().any(|tag| tag == INTERRUPTED)
        && runs.iter().any(|run| run.steady.is_some_and(|steady| steady.steady == Some(false)))
    {
        tags.push("not-steady".to_owned());
    }
    let mut resolved = config.resolved(threads);
    resolved.insert("duration".into(), config.pace.duration.into());
    resolved.insert("rate".into(), config.pace.rate.into());
    Ok(BenchResult {
        schema: SCHEMA,
        tool: host::tool(),
        host: machine,
        config: resolved,
        scope: scope(config),
        runs,
        building: None,
        tags,
        command: config.command.clone(),
    })
}

/// Keys of a state besides those of its accounts, at most: contracts, the coinbase, the system's accounts.
const OTHER_KEYS: u64 = 1 << 16;

/// Refuses a state of more keys than `memory` holds, before hours of writing it.
pub(super) fn fits(keys: u64, memory: Memory) -> Result<(), Usage> {
    let most = memory.max_keys() - OTHER_KEYS;
    if keys <= most {
        return Ok(());
    }
    let (kind, how) = match memory {
        Memory::Resident => ("a resident state", ": keep values on disk with --memory cached:SIZE"),
        Memory::Cached { .. } => ("a state", ""),
    };
    Err(Usage(format!("{keys} keys of accounts do not fit {kind}, which holds {most}{how}")))
}

/// Memory of a run, in bytes: `states` states at the same time, and `tx_bytes` per transaction.
pub(super) fn needed(config: &RunConfig, tx_bytes: u64, states: u64) -> u64 {
    let keys = config.load.accounts.saturating_mul(config.load.keys_per_account());
    let resident = keys.saturating_mul(STATE_BYTES).saturating_mul(states);
    let engine = match config.memory {
        Memory::Resident => resident,
        // An oracle is bounded alike, and runs after the engine is gone.
        Memory::Cached { bytes } => {
            keys.saturating_mul(PAGED_BYTES).saturating_add(bytes as u64).saturating_add(PAGED_BASE.min(resident))
        }
    };
    engine.saturating_add(config.load.txs.saturating_mul(tx_bytes))
}

/// Makes the workload of `config`. Beside it `tx_bytes` are held per transaction, and `states` states at the same time.
///
/// # Errors
/// If the settings describe no load, or memory is short.
pub fn workload(config: &RunConfig, tx_bytes: u64, states: u64, ui: &Ui) -> anyhow::Result<Box<dyn Workload>> {
    let keys = config.load.accounts.saturating_mul(config.load.keys_per_account());
    let on_disk = |Usage(what)| match config.memory {
        Memory::Resident => {
            let paged = RunConfig { memory: Memory::Cached { bytes: 0 }, ..config.clone() };
            let gib = needed(&paged, tx_bytes, states) as f64 / f64::from(1 << 30);
            Usage(format!(
                "{what}; or keep values on disk with --memory cached:SIZE --state DIR, which needs {gib:.1} GiB and SIZE"
            ))
        }
        Memory::Cached { .. } => Usage(what),
    };
    let load = config.transfers(memory::memory_beside(needed(config, tx_bytes, states)).map_err(on_disk)?);
    fits(keys, config.memory)?;
    let bar = ui.bar("making accounts", load.accounts);
    let workload = config.load.workload(load, &|done| bar.set_position(done))?;
    bar.finish_and_clear();
    Ok(workload)
}

/// Transactions of each block, in order.
pub(crate) fn orders(timed: &Timed) -> Vec<Vec<u32>> {
    timed.blocks.iter().map(|block| block.order.clone()).collect()
}

/// Run of a result, from its measurement and verdict.
pub(super) fn report(timed: &Timed, (oracle, detail): (&str, String)) -> Run {
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
            parked: timed.parked,
            waits: timed.waits,
            replayed: timed.replayed,
            fallback_blocks: timed.fallback_blocks,
        },
        resources: Resources {
            rss_peak_bytes: host::rss_peak(),
            disk_written_bytes: timed.disk_written,
            db_bytes: timed.db_bytes,
        },
        reads: timed.reads.map(|(reads, cache)| {
            let per_tx = |count: u64| count as f64 / succeeded.max(1) as f64;
            Reads {
                per_s: reads.reads as f64 / seconds,
                per_tx: per_tx(reads.reads),
                bytes_per_tx: per_tx(reads.bytes),
                written_bytes_per_tx: per_tx(timed.disk_written),
                hit_rate: cache.hit_rate(),
                depth: reads.depth(),
                on_rings: reads.on_rings,
            }
        }),
        integrity: Integrity { state_root: root.to_string(), oracle: oracle.into(), detail },
        series: timed.series(SERIES_POINTS),
        per_second: steady::per_second(&timed.succeeded(), &timed.commits),
        steady: Some(steady::judge(&timed.succeeded(), &timed.commits)),
        balance: timed.balance(),
        open_loop: timed.open_loop,
        disturbance: timed.disturbance,
    }
}

/// Work inside the timer, in the order of its beginning.
fn inside_timer(config: &RunConfig) -> Vec<String> {
    let overlap = if config.overlap && config.pace.rate.is_none() { "planning beside execution" } else { "planning" };
    let parts = [
        ("recovery of all senders", config.signatures),
        ("waiting for arrivals", config.pace.rate.is_some()),
        (overlap, true),
        ("execution", true),
        ("receipts", true),
        ("state root of every block", true),
        ("writes, to their end", config.folder().is_some()),
        ("the timeline", config.trace.is_some()),
    ];
    parts.iter().filter(|(_, is)| *is).map(|(part, _)| (*part).to_owned()).collect()
}

pub(super) fn scope(config: &RunConfig) -> Scope {
    let signatures = config.signatures;
    let mut disabled_rules = Vec::new();
    if !signatures {
        disabled_rules.push("signatures".to_owned());
    }
    let fafo = config.profile.as_deref().is_some_and(|name| name == FAFO_PAPER || FAFO_TABLE_1.contains(&name));
    // The workloads' chain has no beacon chain above it.
    disabled_rules.extend(["system-calls", "withdrawals", "header-hash"].map(str::to_owned));
    let durability = if config.folder().is_none() { "none".into() } else { word(config.durability) };
    Scope {
        signatures,
        nonces: true,
        fees: true,
        gas_limit: true,
        receipts: true,
        root_interval_blocks: 1,
        durability,
        access_source: word(config.access),
        order: word(config.order),
        touched_gib: config.touch,
        inside_timer: inside_timer(config),
        disabled_rules,
        kept_rules: if fafo { KEPT_RULES.map(str::to_owned).into() } else { Vec::new() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_of_too_many_keys_is_refused_before_anything_is_made() {
        let cached = Memory::Cached { bytes: 1 << 30 };
        let refused = fits(1 << 29, Memory::Resident).unwrap_err().0;
        assert!(
            refused.contains("do not fit a resident state, which holds 536805376: keep values on disk"),
            "{refused}"
        );
        assert!(fits((1 << 29) - OTHER_KEYS, Memory::Resident).is_ok());
        assert!(fits(1 << 32, cached).is_ok() && fits(1 << 38, cached).is_err());
    }
}
