//! `bench adversary`: what hostile transactions cost, as factors of sequential execution of the same list.
//!
//! Every run is compared with the results of sequential revm on the same blocks, outside the timers. The least time of a few
//! runs counts, which take turns; a row above its bound is measured again before it is called broken.

mod cases;
mod lies;
mod run;
mod verdict;

use crate::{
    doctor,
    error::Usage,
    machine::host,
    report::Output,
    result::{Host, SCHEMA, Tool},
    run::{oracle::differ, trace::BlockTrace},
    ui::Ui,
    written::{self, Named},
};
use cases::{Case, Given, Lie, Size};
use clap::Args;
use phalanx::Executor;
use run::{Cost, Ended, Ran, Role, build, plan, validate};
use schemars::JsonSchema;
use serde::Serialize;
use verdict::{Reference, Row};

/// Maximum processor time of a validator ÷ that of sequential execution, as `docs/reference/bounds-of-work.md` states it.
pub const VALIDATOR_BOUND: f64 = 2.0;

/// Maximum processor time of a builder or planner ÷ that of sequential execution of as much gas, as
/// `docs/reference/bounds-of-work.md` states it.
pub const BUILDER_BOUND: f64 = 3.0;

/// Number of times that a row above its bound is measured again.
const AGAIN: usize = 4;

/// Settings of the benchmark.
#[derive(Clone, Debug, Args)]
pub struct AdversaryConfig {
    /// Measure only the cases whose names contain this; repeatable, or separated by commas [default: all]
    #[arg(long = "case", value_delimiter = ',', value_name = "NAME")]
    pub cases: Vec<String>,
    /// Worker threads; repeatable, or separated by commas
    #[arg(long, default_values_t = [1, 2], value_delimiter = ',', value_name = "N,..")]
    pub threads: Vec<usize>,
    /// Runs of each variant, of which the fastest counts
    #[arg(long, default_value_t = 3)]
    pub runs: usize,
    /// Gas limit of the blocks, which the lists fill
    #[arg(long, default_value_t = 36_000_000)]
    pub block_gas: u64,
    /// Highest factor of a validator
    #[arg(long, default_value_t = VALIDATOR_BOUND, value_name = "FACTOR")]
    pub max_validator: f64,
    /// Highest factor of a builder and of a planner
    #[arg(long, default_value_t = BUILDER_BOUND, value_name = "FACTOR")]
    pub max_builder: f64,
}

/// The output.
#[derive(Serialize, JsonSchema)]
struct Written<'a> {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// The exact command.
    command: &'a str,
    /// Program that measured.
    tool: Tool,
    /// Machine that it ran on.
    host: Host,
    /// Every flag as resolved.
    config: Flags<'a>,
    /// Highest factors that are allowed.
    bounds: Bounds,
    /// True if every row holds.
    holds: bool,
    /// Cases by role, executor and number of threads.
    rows: &'a [Row],
}

/// Flags, as written.
#[derive(Serialize, JsonSchema)]
struct Flags<'a> {
    /// Parts of names of cases; all if empty.
    case: &'a [String],
    /// Worker threads.
    threads: &'a [usize],
    /// Runs of each variant.
    runs: usize,
    /// Gas limit of the blocks.
    block_gas: u64,
}

/// Highest factors of processor time, by role.
#[derive(Serialize, JsonSchema)]
struct Bounds {
    /// Highest factor for a validator.
    validator: f64,
    /// Highest factor for a builder.
    builder: f64,
    /// Highest factor for a planner.
    planner: f64,
}

/// Schema of what is written.
pub(super) fn schema() -> Named {
    written::schema::<Written<'_>>("bench-adversary", "bench adversary --json")
}

/// Result of the benchmark.
#[derive(Debug)]
pub struct Adversary {
    /// Figures.
    pub output: Output,
    /// True if all results are those of sequential revm, and every factor is within its bound.
    pub holds: bool,
}

/// A variant of a case: role, executor, threads.
#[derive(Clone, Copy, Debug)]
struct Variant {
    role: Role,
    executor: Executor,
    threads: usize,
}

/// Times of a variant so far, and those of its reference.
struct Measured {
    variant: Variant,
    cost: Cost,
    reference: Cost,
    gas: u64,
    txs: usize,
    /// First difference from sequential revm.
    difference: Option<String>,
}

/// Measures all cases. `command` is the command line, for the result.
///
/// # Errors
/// If the settings describe no run, the user stopped it, or an engine failed.
pub fn measure(config: &AdversaryConfig, command: &str, ui: &Ui) -> anyhow::Result<Adversary> {
    check(config)?;
    let size = Size(config.block_gas);
    let chosen: Vec<_> = cases::ALL.iter().filter(|(name, _)| config.chooses(name)).collect();
    let bar = ui.bar("attacking", chosen.len() as u64);
    let mut rows = Vec::new();
    for (name, make) in chosen {
        bar.set_message(*name);
        rows.extend(Bench::new(config, make(size), size)?.rows(name, ui)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let holds = rows.iter().all(Row::holds);
    let AdversaryConfig { cases, threads, runs, block_gas, max_validator, max_builder } = config;
    let value = written::value(&Written {
        schema: SCHEMA,
        command,
        tool: host::tool(),
        host: doctor::host(None),
        config: Flags { case: cases, threads, runs: *runs, block_gas: *block_gas },
        bounds: Bounds { validator: *max_validator, builder: *max_builder, planner: *max_builder },
        holds,
        rows: &rows,
    });
    Ok(Adversary {
        output: Output { value, claim: None, text: verdict::table(&rows), csv: None, picture: None },
        holds,
    })
}

impl AdversaryConfig {
    fn chooses(&self, name: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|part| name.contains(part.as_str()))
    }

    const fn bound(&self, role: Role) -> f64 {
        match role {
            Role::Validator => self.max_validator,
            Role::Builder | Role::Planner => self.max_builder,
        }
    }
}

fn check(config: &AdversaryConfig) -> Result<(), Usage> {
    let AdversaryConfig { cases, threads, runs, block_gas, max_validator, max_builder } = config;
    let names = || cases::ALL.map(|(name, _)| name).join(", ");
    if let Some(part) = cases.iter().find(|part| !cases::ALL.iter().any(|(name, _)| name.contains(part.as_str()))) {
        return Err(Usage(format!("no case has {part:?} in its name; there are {}", names())));
    }
    if threads.is_empty() || threads.iter().any(|threads| !(1..=512).contains(threads)) {
        return Err(Usage("--threads must be between 1 and 512".into()));
    }
    if !(1..=1_000).contains(runs) {
        return Err(Usage(format!("--runs must be between 1 and 1000, not {runs}")));
    }
    if !(3_000_000..=400_000_000).contains(block_gas) {
        return Err(Usage(format!("--block-gas must be between 3000000 and 400000000, not {block_gas}")));
    }
    if ![max_validator, max_builder].iter().all(|bound| bound.is_finite() && **bound > 0.0) {
        return Err(Usage("--max-validator and --max-builder must be above zero".into()));
    }
    Ok(())
}

/// The runs of one case.
struct Bench<'c> {
    config: &'c AdversaryConfig,
    case: Case,
    told: Vec<lies::Told>,
    /// A block that is full of honest calls.
    full: Case,
    size: Size,
}

impl<'c> Bench<'c> {
    fn new(config: &'c AdversaryConfig, mut case: Case, size: Size) -> anyhow::Result<Self> {
        let mut told = Vec::new();
        if let Given::Hinted(lie) = case.given {
            case.genesis.extend(lies::protocol(&lies::rules()?));
            told = lies::told(&case.genesis, &case.blocks, lie, size)?;
        }
        let mut full = cases::full(size);
        full.blocks.truncate(1);
        Ok(Self { config, case, told, full, size })
    }

    /// Variants of the case. An access list takes the place of predictions, so it has one executor; sets and exceptions are
    /// for the DAG.
    fn variants(&self) -> Vec<Variant> {
        let threads = |role, executor| {
            self.config.threads.iter().map(move |threads| Variant { role, executor, threads: *threads })
        };
        let dag = threads(Role::Validator, Executor::Dag);
        match self.case.given {
            Given::Hinted(_) => dag.collect(),
            Given::Invalid => dag.chain(threads(Role::Validator, Executor::BlockStm)).collect(),
            Given::List | Given::First(_) => dag
                .chain(threads(Role::Validator, Executor::BlockStm))
                .chain(threads(Role::Builder, Executor::Dag))
                .chain(threads(Role::Planner, Executor::Dag))
                .collect(),
        }
    }

    /// Reference of the times of a role.
    const fn reference(&self, role: Role) -> Reference {
        match (role, self.case.given) {
            (Role::Validator, Given::Hinted(Lie::Codes)) | (Role::Builder | Role::Planner, _) => Reference::Block,
            _ => Reference::List,
        }
    }

    fn rows(&self, name: &'static str, ui: &Ui) -> anyhow::Result<Vec<Row>> {
        let measured = self.variants().into_iter().map(|variant| Measured {
            variant,
            cost: Cost::UNKNOWN,
            reference: Cost::UNKNOWN,
            gas: 0,
            txs: 0,
            difference: None,
        });
        let mut measured: Vec<Measured> = measured.collect();
        let (mut full, mut list) = (Cost::UNKNOWN, Cost::UNKNOWN);
        for round in 0..self.config.runs + AGAIN {
            let row = |measured: &Measured| self.row(name, measured, full);
            let open = |measured: &Measured| {
                measured.difference.is_none() && (round < self.config.runs || !row(measured).holds())
            };
            let open: Vec<bool> = measured.iter().map(open).collect();
            if !open.contains(&true) {
                break;
            }
            ui.go_on()?;
            full = full.least(validate(&self.full, &[], Executor::Sequential, 1, self.size)?.cost);
            // The verdict on a list is sequential revm's, too; its time is that of the block without it.
            let truth = validate(&self.case, &[], Executor::Sequential, 1, self.size)?;
            list = list.least(truth.cost);
            let refused = match self.case.given {
                Given::Hinted(Lie::LastChange | Lie::Codes) => {
                    Some(validate(&self.case, &self.told, Executor::Sequential, 1, self.size)?)
                }
                _ => None,
            };
            for (measured, _) in measured.iter_mut().zip(open).filter(|(_, open)| *open) {
                ui.go_on()?;
                let Variant { role, executor, threads } = measured.variant;
                let ran = match role {
                    Role::Validator => validate(&self.case, &self.told, executor, threads, self.size)?,
                    Role::Builder => build(&self.case, threads, self.size)?,
                    Role::Planner => plan(&self.case, threads, self.size)?,
                };
                let same = match role {
                    Role::Validator => {
                        measured.reference = list;
                        difference(&ran, refused.as_ref().unwrap_or(&truth))
                    }
                    Role::Builder | Role::Planner => {
                        let same = Case { blocks: ran.blocks.clone(), given: Given::List, ..self.case.clone() };
                        let again = validate(&same, &[], Executor::Sequential, 1, self.size)?;
                        measured.reference = measured.reference.least(again.cost);
                        difference(&ran, &again)
                    }
                };
                measured.cost = measured.cost.least(ran.cost);
                (measured.gas, measured.txs) = (ran.gas(), ran.blocks.iter().map(Vec::len).sum());
                measured.difference = same;
            }
        }
        Ok(measured.iter().map(|measured| self.row(name, measured, full)).collect())
    }

    fn row(&self, name: &'static str, measured: &Measured, full: Cost) -> Row {
        let Measured { variant: Variant { role, executor, threads }, cost, reference, gas, txs, difference } = measured;
        let against = self.reference(*role);
        let reference = match against {
            Reference::List => *reference,
            Reference::Block => reference.most(full.times(self.case.blocks.len())),
        };
        let executor = match (executor, self.case.given) {
            (_, Given::Hinted(Lie::LastChange | Lie::Codes)) => "access-list",
            (Executor::Dag, _) => "dag",
            (Executor::BlockStm, _) => "block-stm",
            (Executor::Sequential, _) => "sequential",
        };
        Row::new(
            name,
            (*role, executor, *threads),
            (*txs, *gas),
            *cost,
            (against, reference),
            self.config.bound(*role),
            difference.clone(),
        )
    }
}

/// First difference between two runs of the same blocks.
fn difference(ours: &Ran, truth: &Ran) -> Option<String> {
    if ours.ended.len() != truth.ended.len() {
        return Some(format!("{} blocks, sequential revm: {}", ours.ended.len(), truth.ended.len()));
    }
    (1..).zip(ours.ended.iter().zip(&truth.ended)).find_map(|(number, ended)| {
        let what = match ended {
            (Ended::Valid(ours), Ended::Valid(truth)) => differ(ours, truth)?,
            (Ended::Invalid(ours), Ended::Invalid(truth)) if ours == truth => return None,
            (ours, truth) => format!("{}, sequential revm: {}", word(ours), word(truth)),
        };
        Some(format!("block {number}: {what}"))
    })
}

fn word(ended: &Ended) -> &str {
    match ended {
        Ended::Valid(BlockTrace { .. }) => "valid",
        Ended::Invalid(why) => why,
    }
}
