//! Cost of every part of every block on one thread: the model's input.

use super::shape::{BlockCosts, Part, Span};
use crate::{
    config::Store,
    machine::{
        clock::{self, StageClock},
        host, pin,
    },
    run::{
        drive::{self, Setup},
        engines::Take,
        genesis,
        trace::TxTrace,
    },
    ui::Ui,
};
use anyhow::Context as _;
use parking_lot::Mutex;
use phalanx::{
    Executor, Observer, Stage, lab,
    parascheduler::{Dag, TxIndex, Verdict, Workers},
    revm::primitives::B256,
};
use std::{hint::black_box, sync::Arc};

/// A run on one thread, split into parts.
pub(super) struct Measured {
    pub(super) blocks: Vec<BlockCosts>,
    /// Nanoseconds of the writer and the kernel over the whole run.
    pub(super) write_ns: f64,
    /// Nanoseconds of all threads over the whole run.
    pub(super) cpu_ns: f64,
    pub(super) disk_bytes: u64,
    pub(super) escapes: u64,
    pub(super) keys: usize,
    pub(super) state_root: B256,
}

/// Record of [`Recorder`]: a stage, the number of tasks of a parallel part, nanoseconds.
type Seen = (Stage, Option<usize>, u64);

/// Records the time of every stage, its parallel parts apart.
struct Recorder {
    clock: Arc<StageClock>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    current: Option<(Stage, Option<usize>)>,
    since: u64,
    seen: Vec<Seen>,
}

impl Recorder {
    /// Ends the current record and begins `next`.
    fn turn(&self, next: Option<(Stage, Option<usize>)>) {
        let now = self.clock.watched();
        let mut open = self.open.lock();
        let since = core::mem::replace(&mut open.since, now);
        if let Some((stage, pieces)) = core::mem::replace(&mut open.current, next) {
            open.seen.push((stage, pieces, now.saturating_sub(since)));
        }
    }

    fn take(&self) -> Vec<Seen> {
        core::mem::take(&mut self.open.lock().seen)
    }
}

impl Observer for Recorder {
    fn enter(&self, stage: Stage) {
        if stage != Stage::Persist {
            self.turn(Some((stage, None)));
        }
    }

    fn leave(&self, stage: Stage) {
        if stage != Stage::Persist {
            self.turn(None);
        }
    }

    fn fork(&self, stage: Stage, pieces: usize) {
        self.turn(Some((stage, Some(pieces))));
    }

    fn join(&self, stage: Stage) {
        self.turn(Some((stage, None)));
    }
}

/// Runs the load of `setup` on one thread, block by block as a timed run does; with `Take::All` on the code path of many
/// threads.
pub(super) fn run(setup: &Setup<'_>, store: &Store, take: Take, ui: &Ui) -> anyhow::Result<Measured> {
    let clock = StageClock::new();
    let recorder = Arc::new(Recorder { clock: Arc::clone(&clock), open: Mutex::default() });
    let observer: Arc<dyn Observer> = Arc::clone(&recorder) as _;
    let pinned = pin::confine(setup.config.pin, 1)?;
    let mut engine =
        drive::open(setup, Executor::Dag, (1, take), setup.config.store_config(store)?, observer, &pinned)?;
    genesis::load(&mut engine, setup.workload, setup.config, ui)?;
    clock.watch_threads([&**engine.workers()]);
    let spans = |seen: Vec<Seen>| {
        let mut ran = false;
        seen.into_iter().filter_map(|seen| span(seen, &mut ran)).collect::<Vec<_>>()
    };
    let bar = ui.bar("measuring on 1 thread", setup.txs.len() as u64);
    let environment = |number: u64| {
        let mut env = setup.workload.block_env(number);
        env.gas_limit = setup.config.block_gas;
        env
    };
    let mut planner = engine.plan(setup.txs, setup.config.order, setup.config.limits());
    planner.use_layers(setup.config.access);
    let (mut blocks, mut kept, mut writes): (Vec<BlockCosts>, Vec<Vec<TxTrace>>, Vec<_>) = Default::default();
    let (mut escapes, mut keys, mut state_root) = (0, 0, B256::ZERO);
    let overlaps = setup.config.overlap;
    let disk = host::disk_written();
    let (cpu, watched) = (clock::process(), clock.watched());
    recorder.take();
    let workers = Arc::clone(engine.workers());
    let mut drive = || -> anyhow::Result<()> {
        let mut ahead = planner.next_block(&engine, &environment(1));
        let mut plan = spans(recorder.take());
        for number in 1.. {
            ui.go_on()?;
            let Some(block) = ahead.take() else { return Ok(()) };
            let mut dag = Dag::build(block.sets(), block.keys().len());
            let (critical_path, order) = (dag.critical_path(), block.order());
            let wide = lab::is_wide(&mut dag, critical_path, |tx| &setup.txs[order[tx.index()] as usize]);
            let planned = order.len();
            keys += block.sets().entries().len();
            let (env, next) = (environment(number), environment(number + 1));
            let merkleized = if overlaps {
                let (merkleized, planned) = engine.execute_and_plan(&env, setup.txs, block, &mut planner, &next)?;
                ahead = planned;
                merkleized
            } else {
                let executed = engine.execute(&env, setup.txs, block)?;
                engine.merkleize(executed)?
            };
            let (mut planning, run): (Vec<Seen>, Vec<Seen>) =
                recorder.take().into_iter().partition(|(stage, ..)| stage.is_planning());
            let committed = engine.commit(merkleized)?;
            state_root = committed.state_root;
            writes.push(committed.write);
            let apply = recorder.take().into_iter().map(applied).collect();
            let left = committed.block.left();
            if !left.is_empty() {
                escapes += left.len() as u64;
                if let Some(planned) = ahead.take() {
                    planner.unplan(planned);
                }
                planner.requeue_escaped(left);
            }
            if !left.is_empty() || !overlaps {
                ahead = planner.next_block(&engine, &next);
                planning.extend(recorder.take());
            }
            let gas: Vec<f64> = committed.block.outcomes().iter().map(|outcome| outcome.gas_used() as f64).collect();
            let txs = gas.len();
            let now = clock.watched();
            kept.push(engine.workers().install(|| TxTrace::all(committed.block.outcomes())));
            drop(committed.block);
            let ns = clock.watched().saturating_sub(now) as f64;
            let weights = weights(gas, dag.len());
            blocks.push(BlockCosts {
                plan: core::mem::replace(&mut plan, spans(planning)),
                plan_of_many: Vec::new(),
                run: spans(run),
                apply,
                keep: vec![Span { part: Part::Keep, ns, pieces: txs.div_ceil(1024) }],
                dag,
                wide,
                weights,
                planned,
                txs,
            });
            bar.inc(txs as u64);
        }
        Ok(())
    };
    // On a worker, as a timed run does: no stage has to wake one.
    workers.install(&mut drive)?;
    writes.into_iter().try_for_each(phalanx::WriteHandle::wait).context("writing blocks")?;
    let (cpu_ns, watched) = ((clock::process() - cpu) as f64, (clock.watched() - watched) as f64);
    let disk_bytes = host::disk_written().saturating_sub(disk);
    pinned.confirm(&workers)?;
    bar.finish_and_clear();
    Ok(Measured { blocks, write_ns: (cpu_ns - watched).max(0.0), cpu_ns, disk_bytes, escapes, keys, state_root })
}

impl Measured {
    /// Adds the plans of the same blocks on the code path of many threads.
    ///
    /// # Errors
    /// If the blocks differ.
    pub(super) fn add_plans_of_many(&mut self, other: Self) -> anyhow::Result<()> {
        let same = |measured: &Self| {
            let sizes: Vec<usize> = measured.blocks.iter().map(|block| block.planned).collect();
            (sizes, measured.state_root)
        };
        anyhow::ensure!(same(self) == same(&other), "blocks were planned otherwise the second time");
        for (block, other) in self.blocks.iter_mut().zip(other.blocks) {
            block.plan_of_many = other.plan;
        }
        Ok(())
    }
}

/// Shares of the wave by transaction: by gas, or equal if transactions escaped.
fn weights(gas: Vec<f64>, nodes: usize) -> Vec<f64> {
    let sum: f64 = gas.iter().sum();
    if gas.len() == nodes && sum > 0.0 {
        gas.into_iter().map(|gas| gas / sum).collect()
    } else {
        vec![1.0 / nodes.max(1) as f64; nodes]
    }
}

/// Span of a record of the commit in memory.
fn applied((_, pieces, ns): Seen) -> Span {
    let part = if pieces.is_some() { Part::Apply } else { Part::ApplyAlone };
    Span { part, ns: ns as f64, pieces: pieces.unwrap_or(1).max(1) }
}

/// Span of a record; `ran` is true after the block's wave, behind which its delta is gathered.
fn span((stage, pieces, ns): Seen, ran: &mut bool) -> Option<Span> {
    let part = match (stage, pieces) {
        (Stage::Analyse, _) => Part::Analyse,
        (Stage::Intern, Some(_)) => Part::Intern,
        (Stage::Intern, None) => Part::InternAlone,
        (Stage::Frame, _) => Part::Frame,
        (Stage::Graph, _) => Part::Graph,
        (Stage::Schedule, _) => Part::Load,
        (Stage::Execute, Some(_)) if core::mem::replace(ran, true) => Part::Gather,
        (Stage::Execute, Some(_)) => Part::Wave,
        (Stage::Execute, None) => Part::GatherAlone,
        (Stage::Seal, Some(_)) => Part::Seal,
        (Stage::Seal, None) => Part::SealAlone,
        (Stage::Merkle, Some(_)) => Part::Merkle,
        (Stage::Merkle, None) => Part::MerkleAlone,
        (Stage::Recover | Stage::Persist, _) => return None,
    };
    Some(Span { part, ns: ns as f64, pieces: pieces.unwrap_or(1).max(1) })
}

/// Cost of dispatch: processor time per transaction that two workers add over one, in nanoseconds.
///
/// Measured with empty jobs over the DAGs of `blocks`, the minimum of some repetitions. Waves for one worker pay nothing.
pub(super) fn dispatch(blocks: &[BlockCosts]) -> anyhow::Result<f64> {
    const REPEATS: usize = 5;
    let some: Vec<&BlockCosts> = blocks.iter().filter(|block| block.wide).take(8).collect();
    let txs: usize = some.iter().map(|block| block.dag.len()).sum();
    let cost = |threads: usize| -> anyhow::Result<f64> {
        let workers = Workers::new(threads)?;
        let mut best = f64::INFINITY;
        for _ in 0..REPEATS {
            let cpu = clock::process();
            for block in &some {
                let mut locals = vec![0u64; threads];
                workers.run(&block.dag, &mut locals, &|local: &mut u64, tx: TxIndex| {
                    *local = black_box(*local + u64::from(tx.0));
                    Verdict::Done
                });
            }
            best = best.min((clock::process() - cpu) as f64);
        }
        Ok(best / txs.max(1) as f64)
    };
    Ok((cost(2)? - cost(1)?).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bench::workload,
        config::{LoadConfig, RunConfig},
        run::drive::Purpose,
    };

    #[test]
    fn a_run_is_split_into_the_engines_parts() {
        let measured = |txs: u64, accounts: u64, block_txs: usize, overlap: bool, take| {
            let load = LoadConfig { accounts, txs, block_txs, ..LoadConfig::default() };
            let (config, ui) = (RunConfig { load, overlap, ..RunConfig::default() }, Ui::silent());
            let workload = workload::workload(&config, workload::TX_BYTES, 2, &ui).unwrap();
            let mut txs = Vec::new();
            workload.transactions().fill(&mut txs, config.load.txs as usize);
            let setup = Setup {
                config: &config,
                workload: &*workload,
                txs: &txs,
                signed: &[],
                threads: 1,
                gate: None,
                purpose: Purpose::Measure,
            };
            run(&setup, &Store::Mem, take, &ui).unwrap()
        };
        let [beside, in_turns] = [true, false].map(|overlap| measured(60_000, 60_000, 30_000, overlap, Take::AsFast));
        assert_eq!(beside.state_root, in_turns.state_root);
        for measured in [&beside, &in_turns] {
            assert_eq!(measured.blocks.len(), 2);
            for block in &measured.blocks {
                assert_eq!((block.planned, block.txs, block.wide), (30_000, 30_000, true));
                let pieces = |part| block.spans().filter(|span| span.part == part).map(|span| span.pieces).max();
                // There are enough balances for several chunks of four thousand.
                assert!(pieces(Part::Apply).is_some_and(|pieces| pieces >= 2), "{:?}", block.apply);
                assert!(
                    pieces(Part::Wave) == Some(30_000)
                        && pieces(Part::Gather) > Some(1)
                        && pieces(Part::Merkle) > Some(1)
                        && pieces(Part::Seal) > Some(1)
                );
            }
            assert!(measured.blocks[0].plan.iter().any(|span| span.part == Part::Frame));
            for block in &measured.blocks {
                // The graph is built with the plan, and not again.
                let graphs = |spans: &[Span]| spans.iter().filter(|span| span.part == Part::Graph).count();
                assert_eq!((graphs(&block.plan), graphs(&block.run)), (1, 0));
            }
        }
        let mut beside = beside;
        beside.add_plans_of_many(measured(60_000, 60_000, 30_000, true, Take::All)).unwrap();
        for block in &beside.blocks {
            let interning = |plan: &[Span]| plan.iter().any(|span| span.part == Part::Intern);
            assert!(interning(&block.plan_of_many) && !interning(&block.plan));
        }
        let small = measured(200, 1000, 100, true, Take::AsFast);
        assert!(beside.add_plans_of_many(small).is_err(), "other blocks");
        let small = measured(200, 1000, 100, true, Take::AsFast);
        assert!(small.blocks.iter().all(
            |block| !block.wide && block.apply.iter().all(|span| span.part == Part::ApplyAlone && span.pieces == 1)
        ));
    }
}
