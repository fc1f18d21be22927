//! Source of the explained block: a recording, a result, or the load of the flags.

use super::graph::Graph;
use crate::cmd::replay::Rules;
use crate::{
    cmd::bench::run::RunCommand,
    flags::{profile, words},
};
use alloy_consensus::Header;
use phalanx::{Block, Executor, Hints, Order, RecoveredBlock, Traces, revm::primitives::Address};
use phalanx_lab::{
    bench::{input, workload},
    config::{RunConfig, Store, parse, threads, word},
    error::Usage,
    machine::{
        clock::{self, StageClock},
        pin,
    },
    report::text,
    result,
    run::{
        drive::{self, Purpose, Setup},
        engines, genesis,
    },
    ui::Ui,
};
use phalanx_workloads::fixtures::{RealBlock, find_blocks};
use std::{ffi::OsString, fs, path::Path};

/// A block, its graph and its execution.
pub(super) struct Explained {
    pub(super) what: String,
    pub(super) graph: Graph,
    /// Sender and receiver of each transaction, for tooltips.
    pub(super) parties: Vec<(Address, Option<Address>)>,
    /// Origin of the edges: true or predicted access sets, in words.
    pub(super) sets: &'static str,
    pub(super) escapes: usize,
    pub(super) reexecutions: usize,
    pub(super) fallback: bool,
    /// Nanoseconds of the block's execution by sequential revm.
    pub(super) sequential_ns: f64,
}

/// Explains what `path` holds: a recorded block, or the load of a result.
pub(super) fn read(path: &Path, block: Option<u64>, ui: &Ui) -> anyhow::Result<Explained> {
    match path.is_dir() {
        true if block.is_some() => Err(Usage(format!("{} is one block: leave out --block", path.display())).into()),
        true => recorded(path, ui),
        false => made(&config_of(path)?, block.unwrap_or(1), ui),
    }
}

/// The run that a result is of.
fn config_of(path: &Path) -> anyhow::Result<RunConfig> {
    let refused = |why: String| Usage(format!("{} is no result of `bench run --json`: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let results = result::read(&text).map_err(|error| refused(error.to_string()))?;
    let [result] = &results[..] else {
        return Err(refused(format!("it holds {} results, and one is explained at a time", results.len())).into());
    };
    let words: Vec<OsString> = words::split(&result.command)?.into_iter().map(Into::into).collect();
    let foreign = || refused(format!("its command is {}", result.command));
    if !words.iter().skip(1).take(2).eq(["bench", "run"]) {
        return Err(foreign().into());
    }
    let args = parse::<RunCommand>(profile::expand(words)?.words.into_iter().skip(3)).map_err(|_| foreign())?;
    // The executors, the cores, the store and the pace of a run are no part of its blocks.
    let RunConfig { load, order, access, threads, fast_path, traces, evm_spec, block_gas, .. } = args.config();
    Ok(RunConfig { load, order, access, threads, fast_path, traces, evm_spec, block_gas, ..RunConfig::default() })
}

/// Explains a recorded block by the true access sets.
fn recorded(dir: &Path, ui: &Ui) -> anyhow::Result<Explained> {
    let found = find_blocks(dir).map_err(|error| Usage(error.to_string()))?;
    if let [first, ..] = &found[..]
        && first != dir
    {
        let (count, dir, first) = (found.len(), dir.display(), first.display());
        return Err(Usage(format!("{dir} is a folder of {count} recorded blocks: name one of them, as {first}")).into());
    }
    let block = RealBlock::read(dir).map_err(|error| Usage(error.to_string()))?;
    let chain = Rules::of_block(dir)?.chain;
    // Uncle headers are not recorded. Their rewards touch no transaction, so stand-ins do.
    let header = &block.header;
    let stand_in =
        Header { beneficiary: header.beneficiary, number: header.number.saturating_sub(8), ..Header::default() };
    let ommers = vec![stand_in; block.uncles];
    let payload =
        RecoveredBlock { header, txs: &block.txs, ommers: &ommers, withdrawals: block.withdrawals.as_deref() };
    let begin = |setup: engines::Setup| -> anyhow::Result<phalanx::Engine> {
        let mut engine = setup.chain(chain.clone(), &block.prestate)?;
        engine.set_ancestors(block.block_hashes.clone());
        Ok(engine)
    };
    let mut oracle = begin(engines::Setup::ORACLE)?;
    let invalid = |error: phalanx::BlockError| Usage(format!("{} is not a valid block: {error}", dir.display()));
    let sets = oracle.true_sets(&payload).map_err(invalid)?;
    ui.go_on()?;
    let (cpu, executed) = (clock::process(), oracle.execute_block(&payload, Hints::None).map_err(invalid)?);
    let sequential_ns = (clock::process() - cpu) as f64;
    let gas = executed.block().outcomes().iter().map(phalanx::Outcome::gas_used).collect();
    ui.go_on()?;
    let on_dag = engines::Setup {
        threads: 2,
        executor: Executor::Dag,
        traces: Traces::On,
        workers: engines::Take::All,
        ..engines::Setup::ORACLE
    };
    let stats = begin(on_dag)?.execute_block(&payload, Hints::Predict).map_err(invalid)?.block().stats().run;
    Ok(Explained {
        what: format!("block {}", block.header.number),
        graph: Graph::of_keys(&sets, gas),
        parties: block.txs.iter().map(|tx| (tx.caller, tx.kind.to().copied())).collect(),
        sets: "the true access sets",
        escapes: stats.escapes,
        reexecutions: stats.reexecutions,
        fallback: stats.fallback,
        sequential_ns,
    })
}

/// Explains a block of a generated load by the predicted access sets, on which the engine's order rests. The state is in
/// memory, whatever the settings say.
pub(super) fn made(config: &RunConfig, number: u64, ui: &Ui) -> anyhow::Result<Explained> {
    config.check()?;
    if number == 0 {
        return Err(Usage("--block counts from 1, not 0".into()).into());
    }
    let workload = workload::workload(config, workload::TX_BYTES, 2, ui)?;
    let txs = input::transactions(&*workload, config.load.txs, ui)?;
    let threads = threads(config.threads)?;
    let setup =
        Setup { config, workload: &*workload, txs: &txs, signed: &[], threads, gate: None, purpose: Purpose::Measure };
    let store = Store::Mem;
    let pinned = pin::confine(config.pin, threads)?;
    let open = |executor| -> anyhow::Result<phalanx::Engine> {
        let mut engine = drive::open(
            &setup,
            executor,
            (threads, engines::Take::AsFast),
            config.store_config(&store)?,
            StageClock::new(),
            &pinned,
        )?;
        genesis::load(&mut engine, &*workload, config, ui)?;
        Ok(engine)
    };
    let (mut engine, mut oracle) = (open(Executor::Dag)?, open(Executor::Sequential)?);
    let mut planner = engine.plan(&txs, config.order, config.limits());
    planner.use_layers(config.access);
    for height in 1.. {
        ui.go_on()?;
        let mut env = workload.block_env(height);
        env.gas_limit = config.block_gas;
        let block = planner.next_block(&engine, &env).ok_or_else(|| {
            let blocks = text::counted(height as usize - 1, "block");
            Usage(format!("the load has {blocks}, and --block {number} is none of them"))
        })?;
        let (sets, keys) = (block.sets().clone(), block.keys().to_vec());
        let planned = block.order()[..sets.len()].to_vec();
        let executed = engine.execute(&env, &txs, block)?;
        let merkleized = engine.merkleize(executed)?;
        let committed = engine.commit(merkleized)?;
        planner.requeue_escaped(committed.block.left());
        let cpu = clock::process();
        let checked = oracle.execute(&env, &txs, Block::unpredicted(committed.block.order().to_vec()))?;
        let sequential_ns = (clock::process() - cpu) as f64;
        let merkleized = oracle.merkleize(checked)?;
        oracle.commit(merkleized)?.write.wait()?;
        if height < number {
            continue;
        }
        ui.go_on()?;
        let stats = committed.block.stats().run;
        let used: std::collections::HashMap<u32, u64> =
            committed.block.transactions().map(|(tx, outcome)| (tx, outcome.gas_used())).collect();
        let gas = planned.iter().map(|tx| used.get(tx).copied().unwrap_or(0)).collect();
        let order = if config.order == Order::Free { "framed" } else { "given" };
        return Ok(Explained {
            what: format!("block {number} of {} ({order} order)", word(config.load.workload)),
            graph: Graph::new(sets, keys, gas),
            parties: planned.iter().map(|tx| &txs[*tx as usize]).map(|tx| (tx.caller, tx.kind.to().copied())).collect(),
            sets: "the predicted access sets",
            escapes: stats.escapes,
            reexecutions: stats.reexecutions,
            fallback: stats.fallback,
            sequential_ns,
        });
    }
    unreachable!("the loop ends with a block or for want of one")
}
