//! `bench plan`: memory, disk and time of a run, before it starts.
//!
//! Memory is reckoned as `bench run` does before it refuses. Disk and time are those of a small run on this machine, per key and per
//! transaction: a small state lies in the caches, so a large one takes longer, and one on disk as long as its reads.

use super::{
    input,
    workload::{self, TX_BYTES, orders},
};
use crate::{
    config::{LoadConfig, OracleKind, Pace, RunConfig, Store, threads, word},
    machine::{clock::StageClock, host, pin::Pinned, temporary::Temporary},
    report::text,
    run::{
        drive::{self, Purpose, Setup},
        engines::Take,
        genesis,
    },
    ui::Ui,
};
use anyhow::Context as _;
use phalanx::{Executor, merkle::Memory};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Accounts and transactions of the small run: seconds on any machine.
const PROBE_ACCOUNTS: u64 = 1 << 15;
const PROBE_TXS: u64 = 40_000;
/// Cache of the small run, in bytes: more than its state takes.
const PROBE_CACHE: usize = 256 << 20;

/// Costs of the small run, per key and per transaction.
#[derive(Debug, Default)]
struct Costs {
    /// Seconds per account, to make it.
    account: f64,
    /// Seconds per key, to write it in a genesis.
    key: f64,
    /// Bytes on disk per key of a genesis.
    key_bytes: f64,
    /// Seconds per transaction, to make it, and to sign it if it is signed.
    made: f64,
    /// Seconds per transaction of each executor of the run.
    executors: Vec<(Executor, f64)>,
    /// Seconds per transaction on sequential revm, for the oracle.
    oracle: f64,
    /// Bytes on disk per transaction.
    tx_bytes: f64,
}

/// Says what the run of `config` takes.
///
/// # Errors
/// If the settings describe no run, or the small run fails.
pub fn run(config: &RunConfig, ui: &Ui) -> anyhow::Result<String> {
    config.check()?;
    workload::fits(config.load.accounts.saturating_mul(config.load.keys_per_account()), config.memory)?;
    let bar = ui.spinner("a small run");
    let costs = measure(config, &ui.hushed())?;
    bar.finish_and_clear();
    Ok(table(config, &costs))
}

/// Settings of the small run; its state is in `folder`.
fn probe(config: &RunConfig, folder: &Path) -> RunConfig {
    let accounts = config.load.accounts.min(PROBE_ACCOUNTS);
    let load = LoadConfig {
        accounts,
        txs: config.load.txs.min(PROBE_TXS),
        gamma: config.load.gamma.min(accounts / 2).max(1),
        ..config.load.clone()
    };
    RunConfig {
        load,
        store: Store::File(folder.to_path_buf()),
        memory: match config.memory {
            Memory::Cached { bytes } => Memory::Cached { bytes: bytes.min(PROBE_CACHE) },
            Memory::Resident => Memory::Resident,
        },
        state: None,
        runs: 1,
        oracle: OracleKind::Off,
        touch: 0,
        pace: Pace::default(),
        trace: None,
        ..config.clone()
    }
}

fn measure(config: &RunConfig, ui: &Ui) -> anyhow::Result<Costs> {
    let folder = Temporary::new().context("making a temporary folder")?;
    let config = probe(config, &folder.path().join("genesis"));
    let threads = threads(config.threads)?;
    let (keys, txs) = (config.load.accounts * config.load.keys_per_account(), config.load.txs as f64);
    let mut costs = Costs::default();
    let per = |begun: Instant, count: f64| begun.elapsed().as_secs_f64() / count.max(1.0);

    let begun = Instant::now();
    let workload = workload::workload(&config, TX_BYTES, 1, ui)?;
    costs.account = per(begun, config.load.accounts as f64);
    let begun = Instant::now();
    let made = input::transactions(&*workload, config.load.txs, ui)?;
    let signed = if config.signatures { input::sign(&*workload, &made, ui)? } else { Vec::new() };
    costs.made = per(begun, txs);
    let purpose = Purpose::Plan;
    let setup =
        Setup { config: &config, workload: &*workload, txs: &made, signed: &signed, threads, gate: None, purpose };

    let store = config.store_config(&config.store)?;
    let take = (threads, Take::AsFast);
    let mut engine = drive::open(&setup, Executor::Dag, take, store, StageClock::new(), &Pinned::default())?;
    let begun = Instant::now();
    genesis::load(&mut engine, &*workload, &config, ui)?;
    drop(engine);
    costs.key = per(begun, keys as f64);
    let genesis_bytes = config.store.path().map_or(0, host::size_of);
    costs.key_bytes = genesis_bytes as f64 / keys.max(1) as f64;

    let at = |name: &str| Store::File(folder.path().join(name));
    let planned = drive::run(&setup, Executor::Dag, threads, &at("dag"), None, ui)?;
    costs.tx_bytes = planned.db_bytes.saturating_sub(genesis_bytes) as f64 / txs.max(1.0);
    let blocks = orders(&planned);
    let seconds = |wall: Duration| wall.as_secs_f64() / txs.max(1.0);
    for executor in &config.executors {
        let wall = match executor {
            Executor::Dag => planned.wall,
            other => {
                let workers = if *other == Executor::Sequential { 1 } else { threads };
                drive::run(&setup, *other, workers, &at(&word(*other)), Some(&blocks), ui)?.wall
            }
        };
        costs.executors.push((*executor, seconds(wall)));
    }
    let unsigned = Setup { signed: &[], ..setup };
    costs.oracle = seconds(drive::run(&unsigned, Executor::Sequential, threads, &Store::Mem, Some(&blocks), ui)?.wall);
    Ok(costs)
}

/// Share of the blocks that the oracle executes.
const fn share(oracle: OracleKind) -> f64 {
    match oracle {
        OracleKind::Full => 1.0,
        OracleKind::Sampled => 0.125,
        OracleKind::Off => 0.0,
    }
}

/// Figures in words, each with what it is compared with.
fn table(config: &RunConfig, costs: &Costs) -> String {
    let (accounts, txs) = (config.load.accounts as f64, config.load.txs as f64);
    let keys = accounts * config.load.keys_per_account() as f64;
    let runs = config.runs as f64;
    let is_compared = config.oracle != OracleKind::Off;
    let states = if is_compared { 2 } else { 1 };
    // Every run has a genesis of its own, and so has an oracle, unless they work on copies of one.
    let own = if config.state.is_some() { 1.0 } else { runs * config.executors.len() as f64 };
    let geneses = own + f64::from(u8::from(is_compared && config.state.is_none()));
    let executed: f64 = costs.executors.iter().map(|(_, seconds)| seconds * txs * runs).sum();
    let times = [
        ("making accounts", costs.account * accounts),
        ("making transactions", costs.made * txs),
        ("genesis", costs.key * keys * geneses),
        ("measured runs", executed),
        ("comparison with sequential revm", costs.oracle * txs * share(config.oracle)),
    ];
    let total: f64 = times.iter().map(|(_, seconds)| seconds).sum();
    let mut lines = vec![(
        "Memory".to_owned(),
        text::bytes(workload::needed(config, TX_BYTES, states)),
        format!("{} are available", text::bytes(host::available_memory())),
    )];
    if let Some(folder) = config.folder() {
        let folders = if config.state.is_some() { 1.0 } else { own };
        let bytes = folders * (costs.key_bytes * keys + costs.tx_bytes * txs);
        let free = host::free_bytes(folder)
            .map_or_else(|| "free bytes unknown".to_owned(), |free| format!("{} are free", text::bytes(free)));
        lines.push(("Disk".to_owned(), text::bytes(bytes as u64), free));
    }
    lines.push(("Time".to_owned(), duration(total), "of which".to_owned()));
    lines.extend(times.map(|(what, seconds)| (format!("  {what}"), duration(seconds), String::new())));
    let mut out: String = lines
        .iter()
        .map(|(what, figure, beside)| format!("{what:34} {figure:>12}  {beside}").trim_end().to_owned() + "\n")
        .collect();
    out.push_str(
        "\nTime and disk are those of a small run on this machine, per key and per transaction. A state beyond the caches takes up to \
         three times as long.\n",
    );
    if config.memory != Memory::Resident {
        out.push_str(
            "Values on disk: the run takes at least its reads, two of a native transfer and three of an ERC20 one, ÷ what the disk \
             reads per second (`phalanx bench store --memory cached:SIZE` measures it).\n",
        );
    }
    out
}

/// Seconds, or minutes, or hours.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn config(flags: &str) -> RunConfig {
        parse(flags.split_whitespace().map(Into::into)).expect("flags")
    }

    #[test]
    fn time_and_disk_grow_with_the_run_and_with_what_it_repeats() {
        let costs = Costs {
            account: 1e-6,
            key: 1e-6,
            key_bytes: 100.0,
            made: 1e-6,
            executors: vec![(Executor::Dag, 1e-6), (Executor::Sequential, 5e-6)],
            oracle: 5e-6,
            tx_bytes: 150.0,
        };
        // Whatever the width of the columns.
        let shown = |flags: &str| table(&config(flags), &costs).split_whitespace().collect::<Vec<_>>().join(" ");
        let load = "--accounts 100M --txs 100M --executor dag --executor sequential";
        let once = shown(&format!("{load} --store file:/tmp"));
        // 100 s each of accounts and transactions, three geneses of 100 s, 600 s of runs, 500 s of the oracle.
        assert!(once.contains("27 min of which") && once.contains("genesis 5 min"), "{once}");
        // Two folders of 10 GB and 15 GB.
        assert!(once.contains("Disk 46.6 GiB") && once.contains("free"), "{once}");
        let copied = shown(&format!("{load} --runs 3 --state /tmp/new --oracle off"));
        assert!(copied.contains("genesis 2 min") && copied.contains("23.3 GiB"), "{copied}");
        assert!(copied.contains("comparison with sequential revm 0 s"), "{copied}");
        let copied = shown("--accounts 100M --txs 1 --state /tmp/new");
        assert!(copied.contains("genesis 2 min"), "the oracle has a copy: {copied}");
        let memory = shown("--accounts 1k");
        assert!(
            !memory.contains("Disk") && memory.contains("are available") && !memory.contains("Values on disk"),
            "{memory}"
        );
        let paged = shown("--accounts 1k --store file:/tmp --memory cached:1M");
        assert!(paged.contains("Values on disk: the run takes at least its reads"), "{paged}");
    }

    #[test]
    fn a_small_run_measures_every_cost() {
        let config =
            config("--accounts 500 --txs 1000 --block-txs 500 --executor dag --executor sequential --threads 2");
        let costs = measure(&config, &Ui::silent()).expect("a run");
        let all = [costs.account, costs.key, costs.key_bytes, costs.made, costs.oracle, costs.tx_bytes];
        assert!(all.iter().all(|cost| *cost > 0.0), "{costs:?}");
        assert!(costs.executors.len() == 2 && costs.executors.iter().all(|(_, cost)| *cost > 0.0), "{costs:?}");
        let probe = probe(&self::config("--accounts 2^30 --txs 256M --alpha 0.5 --gamma 1M"), Path::new("x"));
        probe.load.check().expect("a load");
        assert_eq!((probe.load.accounts, probe.load.txs), (PROBE_ACCOUNTS, PROBE_TXS));
        let refused = run(&self::config("--accounts 2^33 --txs 1"), &Ui::silent()).expect_err("too many keys");
        assert!(refused.to_string().contains("do not fit a resident state"), "{refused:#}");
    }
}
