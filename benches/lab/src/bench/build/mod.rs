//! `bench build`: from signed bytes to sealed blocks, and their validation.
//!
//! ```text
//!  bytes ─► recover ─► pool ─► builder ─► blocks ─┬─► sequential revm: the truth, exceptions, access lists
//!                                                 └─► a validator on a fresh engine per artefact and number of threads
//! ```
//!
//! `intake.rs` and `produce.rs` make the blocks, `validate.rs` validates them, `chain.rs` is shared by both.

mod chain;
mod intake;
mod produce;
mod validate;

use super::{
    input,
    workload::{TX_BYTES, orders, report, scope, workload},
};
use crate::{
    config::{Artefact, BuildConfig, OracleKind, Store, threads},
    doctor,
    error::Interrupted,
    machine::host,
    result::{Artefacts, BenchResult, Building, Fairness, Run, SCHEMA},
    run::{
        drive::{self, Purpose, Setup, Timed},
        oracle::{self, Oracle},
    },
    ui::Ui,
};
use chain::Chain;
use intake::Input;
use phalanx::Executor;
use produce::{Made, Produced};
use validate::{Given, Witness};

/// Bytes per transaction beside those of a [`Setup`]: in the pool's input, and in the built blocks.
const KEPT_BYTES: u64 = 2 * TX_BYTES;

/// Builds blocks of the load of `config`, and validates them with each artefact.
///
/// # Errors
/// If the settings describe no run, memory is short, or a run fails.
pub fn run(config: &BuildConfig, ui: &Ui) -> anyhow::Result<BenchResult> {
    let beside = &config.run;
    beside.check()?;
    let machine = doctor::host(config.run.store.path());
    let (threads, validators) = (threads(beside.threads)?, config.validators()?);
    let workload = workload(beside, KEPT_BYTES, 2, ui)?;
    let txs = input::transactions(&*workload, config.run.load.txs, ui)?;
    let chain = Chain::new(config, &*workload)?;
    chain.make(threads, ui)?;
    let input =
        if config.run.signatures { Input::Signed(input::sign(&*workload, &txs, ui)?) } else { Input::unsigned(&txs) };
    let setup = Setup {
        config: beside,
        workload: &*workload,
        txs: &txs,
        signed: &[],
        threads,
        gate: None,
        purpose: Purpose::Measure,
    };
    let mut bench = Bench { config, chain, setup, input, ui, runs: Vec::new(), building: Building::default() };
    let mut interrupted = false;
    for _ in 0..config.run.runs {
        interrupted = match bench.round(&validators) {
            // The runs before are reported.
            Err(error) if error.is::<Interrupted>() && !bench.runs.is_empty() => true,
            round => round?.is_none(),
        };
        if interrupted {
            break;
        }
    }
    let mut scope = scope(beside);
    // A whole block of the workloads' chain has withdrawals, of which there are none, and system calls, which find no
    // contract.
    scope.disabled_rules.retain(|rule| rule == "signatures" || rule == "header-hash");
    let Bench { runs, building, .. } = bench;
    Ok(BenchResult {
        schema: SCHEMA,
        tool: host::tool(),
        host: machine,
        config: config.resolved(threads, &validators),
        scope,
        building: Some(Building { cost_beside_run: cost_beside_run(&runs), ..building }),
        runs,
        tags: if interrupted { vec!["interrupted".to_owned()] } else { Vec::new() },
        command: beside.command.clone(),
    })
}

/// Inputs and results of all rounds.
struct Bench<'a> {
    config: &'a BuildConfig,
    chain: Chain<'a>,
    setup: Setup<'a>,
    input: Input,
    ui: &'a Ui,
    runs: Vec<Run>,
    building: Building,
}

impl Bench<'_> {
    /// Runs planner, builder and validators once each; `None` if the user stopped it.
    fn round(&mut self, validators: &[usize]) -> anyhow::Result<Option<()>> {
        let Self { config, setup, ui, .. } = *self;
        let planned = drive::run(&setup, Executor::Dag, setup.threads, &self.store(), None, ui)?;
        let truth = oracle::consult(&setup, OracleKind::Full, &orders(&planned), ui)?;
        self.keep(&planned, truth.as_ref());

        let produced = self.produce(false)?;
        if produced.timed.interrupted {
            self.keep(&produced.timed, None);
            return Ok(None);
        }
        self.building.fairness = produced.fairness.into();
        let witness = validate::witness(&self.chain, &produced.blocks, setup.txs, config.quality, ui)?;
        let Witness { truth, exceptions, quality } = match witness {
            Ok(witness) => witness,
            Err(why) => {
                let mut timed = produced.timed;
                timed.check = timed.check.and(Err(format!("sequential revm: {why}")));
                self.keep(&timed, None);
                return Ok(Some(()));
            }
        };
        self.building.predictions = quality.lines();
        let truth = Oracle::of_all(truth);
        self.keep(&produced.timed, Some(&truth));
        let mut blocks = produced.blocks;
        if config.artefacts.contains(&Artefact::AccessList) {
            let mut listing = self.produce(true)?;
            if !listing.timed.interrupted && !produce::same_blocks(&blocks, &listing.blocks) {
                listing.timed.check = listing.timed.check.and(Err("other blocks than without access lists".into()));
            }
            self.keep(&listing.timed, Some(&truth));
            if listing.timed.interrupted || listing.timed.check.is_err() {
                return Ok((!listing.timed.interrupted).then_some(()));
            }
            blocks = listing.blocks;
        }
        self.weigh(&blocks, &exceptions);
        let mut given = Vec::new();
        for kind in &config.artefacts {
            given.extend(validators.iter().map(|threads| match kind {
                Artefact::None => (Given::Nothing, *threads),
                Artefact::Exceptions => (Given::Exceptions(&exceptions), *threads),
                Artefact::AccessList => (Given::List, *threads),
            }));
        }
        given.push((Given::Sequential, 1));
        for (given, threads) in given {
            let timed = validate::run(&self.chain, &blocks, setup.txs, given, threads, &self.store(), ui)?;
            self.keep(&timed, Some(&truth));
            if timed.interrupted {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    fn produce(&self, lists: bool) -> anyhow::Result<Produced> {
        produce::run(&self.chain, &self.setup, &self.input, lists, &self.store(), self.ui)
    }

    fn keep(&mut self, timed: &Timed, truth: Option<&Oracle>) {
        self.runs.push(report(timed, oracle::judge(truth, timed)));
    }

    /// Store of the next run.
    fn store(&self) -> Store {
        match self.config.run.store.path() {
            Some(path) => self.config.run.store.at(path.join((self.runs.len() + 1).to_string())),
            None => Store::Mem,
        }
    }

    /// Records the sizes of the artefacts.
    fn weigh(&mut self, blocks: &[Made], exceptions: &[Vec<u8>]) {
        let per_tx = |bytes: usize| bytes as f64 / self.setup.txs.len() as f64;
        let asked = |kind| self.config.artefacts.contains(&kind);
        let lists = blocks.iter().filter_map(|block| block.list.as_ref()).map(|(rlp, _)| rlp.len());
        self.building.artefacts = Artefacts {
            exceptions_bytes_per_tx: asked(Artefact::Exceptions).then(|| per_tx(exceptions.iter().map(Vec::len).sum())),
            list_bytes_per_tx: asked(Artefact::AccessList).then(|| per_tx(lists.sum())),
        };
    }
}

/// Cost of the builder without recovery and pool ÷ cost of `bench run`, by medians. `None` if either is wrong or absent.
fn cost_beside_run(runs: &[Run]) -> Option<f64> {
    let median = |executor: &str| {
        let of: Vec<&Run> = runs.iter().filter(|run| run.executor == executor).collect();
        if of.iter().any(|run| run.throughput.is_none()) {
            return None;
        }
        let before = |run: &Run| run.stages_ns_per_tx.recover + run.stages_ns_per_tx.pool;
        let cost = |run: &&Run| run.cpu.us_core_per_tx - before(run) / 1e3;
        let mut costs: Vec<f64> = of.iter().map(cost).collect();
        costs.sort_by(f64::total_cmp);
        costs.get(costs.len() / 2).copied()
    };
    Some(median("build")? / median("dag").filter(|cost| *cost > 0.0)?)
}

impl From<phalanx::pool::Fairness> for Fairness {
    fn from(fairness: phalanx::pool::Fairness) -> Self {
        let phalanx::pool::Fairness { max_displacement, p50, p99, max_delay, max_wait, .. } = fairness;
        Self { max_displacement, p50_displacement: p50, p99_displacement: p99, max_delay, max_wait_blocks: max_wait }
    }
}
