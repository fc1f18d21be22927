//! Runs of a case: as a validator, a builder or a planner, with times and with all results.

use super::{
    cases::{Case, Given, Size},
    lies::{self, Told},
};
use crate::{
    machine::clock,
    run::trace::{BlockTrace, TxTrace},
};
use core::time::Duration;
use phalanx::{
    BlockError, BlockInfo, BlockLimits, Budget, Builder, CandidateTx, Engine, Executed, Executor, Hints, Invalid,
    Order, RecoveredBlock, Target,
    revm::{
        context::{BlockEnv, TxEnv},
        primitives::{Address, B256, U256},
    },
};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Instant;

/// Role of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Role {
    /// Executes the list in its order.
    Validator,
    /// Builds a block from the list.
    Builder,
    /// Plans the list into blocks in free order, and executes them.
    Planner,
}

/// Time of a run, in seconds.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(super) struct Cost {
    /// Processor time of all threads.
    pub(super) cpu_s: f64,
    /// Wall time.
    pub(super) wall_s: f64,
}

impl Cost {
    /// Cost of nothing measured yet.
    pub(super) const UNKNOWN: Self = Self { cpu_s: f64::INFINITY, wall_s: f64::INFINITY };

    pub(super) const fn least(self, other: Self) -> Self {
        Self { cpu_s: self.cpu_s.min(other.cpu_s), wall_s: self.wall_s.min(other.wall_s) }
    }

    pub(super) const fn most(self, other: Self) -> Self {
        Self { cpu_s: self.cpu_s.max(other.cpu_s), wall_s: self.wall_s.max(other.wall_s) }
    }

    pub(super) fn times(self, count: usize) -> Self {
        Self { cpu_s: self.cpu_s * count as f64, wall_s: self.wall_s * count as f64 }
    }
}

/// Sums up times of the parts of a run that count.
#[derive(Debug, Default)]
struct Timer {
    cpu: u64,
    wall: Duration,
}

impl Timer {
    fn time<R>(&mut self, act: impl FnOnce() -> R) -> R {
        let (cpu, began) = (clock::process(), Instant::now());
        let result = act();
        self.cpu += clock::process() - cpu;
        self.wall += began.elapsed();
        result
    }

    const fn cost(&self) -> Cost {
        Cost { cpu_s: self.cpu as f64 / 1e9, wall_s: self.wall.as_secs_f64() }
    }
}

/// End of a block.
pub(super) enum Ended {
    /// Valid, with all results.
    Valid(BlockTrace),
    /// Invalid for this reason.
    Invalid(String),
}

/// A run.
pub(super) struct Ran {
    pub(super) cost: Cost,
    pub(super) ended: Vec<Ended>,
    /// Transactions of the blocks in their final order.
    pub(super) blocks: Vec<Vec<TxEnv>>,
}

impl Ran {
    /// Gas that the valid blocks used.
    pub(super) fn gas(&self) -> u64 {
        let gas = |ended: &Ended| if let Ended::Valid(trace) = ended { trace.gas_used } else { 0 };
        self.ended.iter().map(gas).sum()
    }
}

/// Environment of a block.
fn env(number: u64, size: Size) -> BlockEnv {
    BlockEnv {
        number: U256::from(number),
        timestamp: U256::from(number * 12),
        basefee: 1,
        gas_limit: size.0,
        beneficiary: Address::repeat_byte(0xbb),
        prevrandao: Some(B256::ZERO),
        ..BlockEnv::default()
    }
}

fn engine(case: &Case, executor: Executor, threads: usize) -> anyhow::Result<Engine> {
    let mut builder = Engine::builder().with_executor(executor).with_threads(threads);
    if let Given::Hinted(_) = case.given {
        builder = builder.with_chain(lies::rules()?);
    }
    let mut engine = builder.build()?;
    engine.genesis(case.genesis.iter().cloned())?;
    Ok(engine)
}

/// Reason why a block is invalid, as far as it is the same for all executors: any one of several faults at a step of an access
/// list may be reported.
fn reason(invalid: &BlockError) -> String {
    match invalid {
        BlockError::AccessList { index, .. } => format!("the access list is wrong at step {index:?}"),
        other => format!("{other:?}"),
    }
}

/// Commits a block, and keeps its results.
fn keep(engine: &mut Engine, executed: Executed) -> anyhow::Result<Ended> {
    let merkleized = engine.merkleize(executed)?;
    let committed = engine.commit(merkleized)?;
    committed.write.wait()?;
    Ok(Ended::Valid(trace(&committed.block, committed.state_root)))
}

/// Results of a block, whose transactions are counted in their final order.
fn trace(block: &BlockInfo, state_root: B256) -> BlockTrace {
    BlockTrace {
        order: (0..block.outcomes().len() as u32).collect(),
        results: TxTrace::all(block.outcomes()),
        receipts_root: block.receipts_root(),
        state_root,
        gas_used: block.gas_used(),
        access_list: None,
    }
}

/// Executes the lists in their order.
///
/// # Errors
/// If the engine fails.
pub(super) fn validate(
    case: &Case,
    told: &[Told],
    executor: Executor,
    threads: usize,
    size: Size,
) -> anyhow::Result<Ran> {
    let mut engine = engine(case, executor, threads)?;
    let (mut timer, mut ended, mut blocks) = (Timer::default(), Vec::new(), Vec::new());
    for (at, txs) in case.blocks.iter().enumerate() {
        let number = at as u64 + 1;
        let txs = if let Given::First(count) = case.given { &txs[..count.min(txs.len())] } else { txs };
        let executed = match case.given {
            Given::List | Given::First(_) => {
                let env = env(number, size);
                timer.time(|| engine.execute_given(&env, txs, Invalid::Skip))
            }
            Given::Invalid => {
                let env = env(number, size);
                timer.time(|| engine.execute_given(&env, txs, Invalid::Refuse))
            }
            Given::Hinted(_) => {
                let header = lies::header(number, size.0);
                let payload = RecoveredBlock { header: &header, txs, ommers: &[], withdrawals: None };
                let hints = told.get(at).map_or(Hints::None, Told::hints);
                timer.time(|| engine.execute_block(&payload, hints))
            }
        };
        ended.push(match executed {
            Ok(executed) => keep(&mut engine, executed)?,
            Err(BlockError::Engine(error)) => return Err(error.into()),
            Err(invalid) => Ended::Invalid(reason(&invalid)),
        });
        blocks.push(txs.to_vec());
    }
    Ok(Ran { cost: timer.cost(), ended, blocks })
}

/// Builds a block from each list.
///
/// # Errors
/// If the engine fails.
pub(super) fn build(case: &Case, threads: usize, size: Size) -> anyhow::Result<Ran> {
    let mut engine = engine(case, Executor::Dag, threads)?;
    let mut builder = Builder::new(&engine);
    let (mut timer, mut ended, mut blocks) = (Timer::default(), Vec::new(), Vec::new());
    for (number, txs) in (1..).zip(&case.blocks) {
        let offered: Vec<CandidateTx> = (0..).zip(txs).map(|(rank, tx)| CandidateTx::new(tx.clone(), rank)).collect();
        let target = Target::Plain(Box::new(env(number, size)));
        let built = timer.time(|| {
            let mut job = builder.open(&mut engine, target, Budget::default(), [])?;
            job.extend(offered, &|| false)?;
            Ok::<_, BlockError>(job.finish())
        })?;
        if let Some(failure) = built.failure {
            return Err(failure.into());
        }
        blocks.push(built.txs.iter().map(|candidate| candidate.tx.env().clone()).collect());
        ended.push(keep(&mut engine, built.executed)?);
    }
    Ok(Ran { cost: timer.cost(), ended, blocks })
}

/// Plans and executes each list in free order.
///
/// # Errors
/// If the engine fails.
pub(super) fn plan(case: &Case, threads: usize, size: Size) -> anyhow::Result<Ran> {
    let mut engine = engine(case, Executor::Dag, threads)?;
    let (mut timer, mut ended, mut blocks) = (Timer::default(), Vec::new(), Vec::new());
    let limits = BlockLimits { max_txs: 10_000, max_gas: size.0 };
    for txs in &case.blocks {
        let mut planner = engine.plan(txs, Order::Free, limits);
        loop {
            let env = env(blocks.len() as u64 + 1, size);
            let executed = timer.time(|| {
                let block = planner.next_block(&engine, &env)?;
                Some(engine.execute(&env, txs, block))
            });
            let Some(executed) = executed.transpose()? else { break };
            let merkleized = engine.merkleize(executed)?;
            let committed = engine.commit(merkleized)?;
            committed.write.wait()?;
            timer.time(|| planner.requeue_escaped(committed.block.left()));
            blocks.push(committed.block.order().iter().map(|tx| txs[*tx as usize].clone()).collect());
            ended.push(Ended::Valid(trace(&committed.block, committed.state_root)));
        }
    }
    Ok(Ran { cost: timer.cost(), ended, blocks })
}
