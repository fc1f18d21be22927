//! What every part of every block costs, on one thread: the model's input.

use super::shape::{BlockCosts, Part, Span};
use crate::{
    args::{Store, Switch},
    clock::{self, StageClock},
    drive::{self, Setup},
    pin,
    trace::TxTrace,
    ui::Ui,
};
use anyhow::Context as _;
use parking_lot::Mutex;
use phalanx::{
    Executor, Observer, Stage, Width,
    merkle::{self, Backend, Delta, StoreConfig},
    parascheduler::{Dag, TxIndex, Verdict, Workers},
    revm::primitives::B256,
};
use std::{hint::black_box, sync::Arc};

/// A run on one thread, taken apart.
pub(super) struct Measured {
    pub(super) blocks: Vec<BlockCosts>,
    /// Of the writer and the kernel, over the whole run.
    pub(super) write_ns: f64,
    /// Of all threads, over the whole run.
    pub(super) cpu_ns: f64,
    pub(super) disk_bytes: u64,
    pub(super) escapes: u64,
    pub(super) keys: usize,
    pub(super) state_root: B256,
}

/// Of the work on the store that all threads are called to, the shares that one thread does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Alone {
    /// Of `Store::prepare`.
    pub(super) root: f64,
    /// Of `Store::apply`.
    pub(super) apply: f64,
}

/// What [`Recorder`] has seen: a stage, in how many pieces its parallel part falls, nanoseconds.
type Seen = (Stage, Option<usize>, u64);

/// Writes down what every stage spends, those parts apart that all threads work on.
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
    /// The clocks stand at `now`: what was going on has lasted until then, and `next` goes on.
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

/// Runs the load of `setup` on one thread, block by block as a timed run does.
pub(super) fn run(setup: &Setup<'_>, store: &Store, alone: Alone, ui: &Ui) -> anyhow::Result<Measured> {
    let clock = StageClock::new();
    let recorder = Arc::new(Recorder { clock: Arc::clone(&clock), open: Mutex::default() });
    let observer: Arc<dyn Observer> = Arc::clone(&recorder) as _;
    let pinned = pin::confine(setup.args.pin, 1)?;
    let mut engine = drive::open(setup, Executor::Dag, 1, setup.args.store_config(store)?, observer, &pinned)?;
    drive::load_genesis(&mut engine, setup.workload, ui)?;
    clock.watch_threads([&**engine.workers()]);
    let spans = |seen: Vec<Seen>| {
        let mut ran = false;
        seen.into_iter().flat_map(|seen| spans(seen, alone.root, &mut ran)).collect::<Vec<_>>()
    };
    let bar = ui.bar("measuring on 1 thread", setup.txs.len() as u64);
    let environment = |number: u64| {
        let mut env = setup.workload.block_env(number);
        env.gas_limit = setup.args.block_gas;
        env
    };
    let mut planner = engine.plan(setup.txs, setup.args.ordering(), setup.args.limits());
    planner.use_layers(setup.args.access.layers());
    let (mut blocks, mut kept, mut tickets): (Vec<BlockCosts>, Vec<Vec<TxTrace>>, Vec<_>) = Default::default();
    let (mut escapes, mut keys, mut state_root) = (0, 0, B256::ZERO);
    let overlaps = setup.args.overlap == Switch::On;
    let disk = crate::host::disk_written();
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
            let width = Width::of(&mut dag, critical_path, |tx| &setup.txs[order[tx.index()] as usize]);
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
            tickets.push(committed.ticket);
            let apply = recorder.take().into_iter().flat_map(|seen| applied(seen, alone.apply)).collect();
            let left = committed.block.left();
            if !left.is_empty() {
                escapes += left.len() as u64;
                if let Some(planned) = ahead.take() {
                    planner.put_back(planned);
                }
                planner.take_back(left);
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
                run: spans(run),
                apply,
                keep: vec![Span { part: Part::Keep, ns, pieces: txs.div_ceil(1024) }],
                dag,
                width,
                weights,
                planned,
                txs,
            });
            bar.inc(txs as u64);
        }
        Ok(())
    };
    // From the engine's own thread, as a timed run does: no stage has to wake it up.
    workers.install(&mut drive)?;
    tickets.into_iter().try_for_each(phalanx::Ticket::wait).context("writing blocks")?;
    let (cpu_ns, watched) = ((clock::process() - cpu) as f64, (clock.watched() - watched) as f64);
    let disk_bytes = crate::host::disk_written().saturating_sub(disk);
    pinned.confirm(&workers)?;
    bar.finish_and_clear();
    Ok(Measured { blocks, write_ns: (cpu_ns - watched).max(0.0), cpu_ns, disk_bytes, escapes, keys, state_root })
}

/// Shares of the wave: by gas, or equal where transactions left the block.
fn weights(gas: Vec<f64>, nodes: usize) -> Vec<f64> {
    let sum: f64 = gas.iter().sum();
    if gas.len() == nodes && sum > 0.0 {
        gas.into_iter().map(|gas| gas / sum).collect()
    } else {
        vec![1.0 / nodes.max(1) as f64; nodes]
    }
}

/// What was seen of the state's move, of whose parallel part one thread does the share `alone`.
fn applied((_, pieces, ns): Seen, alone: f64) -> [Span; 2] {
    let (ns, shared) = (ns as f64, if pieces.is_some() { 1.0 - alone } else { 0.0 });
    [
        Span { part: Part::ApplyAlone, ns: ns * (1.0 - shared), pieces: 1 },
        Span { part: Part::Apply, ns: ns * shared, pieces: pieces.unwrap_or(1).max(1) },
    ]
}

/// What was seen, as the model names it. `ran`: whether the block's wave was seen, behind which its delta is gathered.
fn spans((stage, pieces, ns): Seen, root_alone: f64, ran: &mut bool) -> Vec<Span> {
    let span = |part, ns, pieces| Span { part, ns, pieces };
    let ns = ns as f64;
    match (stage, pieces) {
        (Stage::Merkle, Some(pieces)) => vec![
            span(Part::MerkleAlone, ns * root_alone, 1),
            span(Part::Merkle, ns * (1.0 - root_alone), pieces.max(1)),
        ],
        (Stage::Analyse, Some(pieces)) => vec![span(Part::Analyse, ns, pieces.max(1))],
        (Stage::Schedule, Some(pieces)) => vec![span(Part::Load, ns, pieces.max(1))],
        (Stage::Execute, Some(pieces)) => {
            let part = if core::mem::replace(ran, true) { Part::Gather } else { Part::Wave };
            vec![span(part, ns, pieces.max(1))]
        }
        (Stage::Seal, Some(pieces)) => vec![span(Part::Seal, ns, pieces.max(1))],
        (Stage::Analyse, None) => vec![span(Part::Intern, ns, 1)],
        (Stage::Frame, _) => vec![span(Part::Frame, ns, 1)],
        (Stage::Graph, _) => vec![span(Part::Graph, ns, 1)],
        (Stage::Schedule, None) => vec![span(Part::Load, ns, 1)],
        (Stage::Execute, None) => vec![span(Part::GatherAlone, ns, 1)],
        (Stage::Seal, None) => vec![span(Part::SealAlone, ns, 1)],
        (Stage::Merkle, None) => vec![span(Part::MerkleAlone, ns, 1)],
        (Stage::Recover | Stage::Persist, _) => Vec::new(),
    }
}

/// Nanoseconds of processor time that two workers add to each transaction of these DAGs, over one worker: empty jobs, the
/// cheapest of some repetitions. Waves for one worker pay nothing.
pub(super) fn dispatch(blocks: &[BlockCosts]) -> anyhow::Result<f64> {
    const REPEATS: usize = 5;
    let some: Vec<&BlockCosts> = blocks.iter().filter(|block| block.width == Width::All).take(8).collect();
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

/// The shares of [`Alone`], by Amdahl's law from the best repetition on one thread and on two, which do the same blocks in
/// turns. A repetition counts by the processor time of its busiest thread, which does not grow while others have the core.
pub(super) fn alone(keys: u64, updates: usize, hasher: merkle::Params, ui: &Ui) -> anyhow::Result<Alone> {
    const REPEATS: u64 = 48;
    let key = |rank: u64| rank.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let mut sides = Vec::new();
    for threads in [1, 2] {
        let workers = Workers::new(threads)?;
        let store = workers.install(|| -> anyhow::Result<_> {
            let mut store = merkle::Store::open(StoreConfig::new(Backend::Mem).with_params(hasher))?;
            let mut state = Delta::new();
            (0..keys).for_each(|rank| state.put(&key(rank), &[1; 16]));
            let prepared = store.prepare(state, 0)?;
            store.commit(prepared)?;
            Ok(store)
        })?;
        sides.push((workers, store, [f64::INFINITY; 2]));
    }
    // All workers of both: those of the other side do nothing meanwhile.
    let clock = StageClock::new();
    clock.watch_threads(sides.iter().map(|(workers, ..)| workers));
    for round in 1..=REPEATS {
        ui.go_on()?;
        for (workers, store, best) in &mut sides {
            let mut delta = Delta::new();
            (0..updates as u64).for_each(|update| {
                let rank = (update * 0x9e37_79b9 + round) % keys.max(1);
                delta.put(&key(rank), &[1 + round as u8; 16]);
            });
            let begin = clock.workers();
            let prepared = workers.install(|| store.prepare(delta, round))?;
            let between = clock.workers();
            let pending = workers.install(|| store.apply(prepared))?;
            let end = clock.workers();
            pending.write()?;
            for (best, (from, to)) in best.iter_mut().zip([(&begin, &between), (&between, &end)]) {
                let spent = to.iter().zip(from).map(|((_, after), (_, before))| after - before);
                *best = best.min(spent.max().unwrap_or(0) as f64);
            }
        }
    }
    // Where threads have no clocks that others can read, nothing is known to run in parallel.
    let share = |one: f64, two: f64| if one > 0.0 { (2.0 * two / one - 1.0).clamp(0.0, 1.0) } else { 1.0 };
    let [one, two] = [sides[0].2, sides[1].2];
    Ok(Alone { root: share(one[0], two[0]), apply: share(one[1], two[1]) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{args::BenchArgs, bench};

    #[test]
    fn a_run_is_taken_apart_into_what_the_engine_does() {
        let measured = |flags: &str| {
            let (args, ui) = (BenchArgs::of(flags), Ui::silent());
            let workload = bench::workload(&args, bench::TX_BYTES, &ui).unwrap();
            let mut txs = Vec::new();
            workload.transactions().fill(&mut txs, args.load.txs as usize);
            let setup = Setup { args: &args, workload: &*workload, txs: &txs, signed: &[], threads: 1, gate: None };
            run(&setup, &Store::Mem, Alone { root: 0.5, apply: 0.5 }, &ui).unwrap()
        };
        let load = "--accounts 60000 --txs 60000 --block-txs 30000 --overlap";
        let [beside, in_turns] = ["on", "off"].map(|overlap| measured(&format!("{load} {overlap}")));
        assert_eq!(beside.state_root, in_turns.state_root);
        for measured in [beside, in_turns] {
            assert_eq!(measured.blocks.len(), 2);
            for block in &measured.blocks {
                assert_eq!((block.planned, block.txs, block.width), (30_000, 30_000, Width::All));
                let pieces = |part| block.spans().filter(|span| span.part == part).map(|span| span.pieces).max();
                // So many balances that threads share them, four thousand of them a stretch.
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
                // The graph is made with the plan, and not again.
                let graphs = |spans: &[Span]| spans.iter().filter(|span| span.part == Part::Graph).count();
                assert_eq!((graphs(&block.plan), graphs(&block.run)), (1, 0));
            }
        }
        let small = measured("--accounts 1000 --txs 200 --block-txs 100");
        assert!(
            small.blocks.iter().all(|block| block.width == Width::One && block.apply.iter().all(|s| s.pieces == 1))
        );
    }

    #[test]
    fn a_move_of_the_state_has_a_share_that_scales() {
        let span = |part, ns, pieces| Span { part, ns, pieces };
        let of = |pieces| applied((Stage::Merkle, pieces, 1000), 0.25);
        assert_eq!(of(Some(4)), [span(Part::ApplyAlone, 250.0, 1), span(Part::Apply, 750.0, 4)]);
        assert_eq!(of(None), [span(Part::ApplyAlone, 1000.0, 1), span(Part::Apply, 0.0, 1)]);
    }
}
