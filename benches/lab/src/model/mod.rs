//! `bench scale`: a model of this workload on more cores than this machine has.
//!
//! ```text
//! one thread, in parts ─► costs per part and block, the true DAGs ─► discrete-event replay ─► curve, knee, cause
//!                                                                            └─► beside 1, 2, .. real threads
//! ```
//!
//! `validated` is true if the model is within 5 % of real runs of this machine on more threads than one.

mod show;

pub(crate) use show::schema;
mod measure;
mod knee;
mod shape;
mod replay;

use crate::{
    bench::{input, workload},
    config::{RunConfig, Store, heading},
    error::{Different, Interrupted, Usage},
    machine::{host, memory},
    parallel,
    report::{Output, text},
    run::{
        drive::{self, Gate, Purpose, Setup, Timed},
        engines::Take,
        oracle,
        trace::Ended,
    },
    ui::Ui,
};
use anyhow::Context as _;
use clap::Args;
use knee::{ENOUGH, Model, Replay};
use measure::Measured;
use phalanx::{Executor, merkle::Memory};
use shape::{BlockCosts, Constants, Part, Span};
use std::{collections::BTreeMap, sync::Barrier};

/// Estimated time to wake all workers and wait for the last, in nanoseconds: a futex and a switch each way.
const CALL_NS: f64 = 10_000.0;

/// Largest deviation of a validated model from real runs.
const WITHIN: f64 = 0.05;

/// Second share of ideal at which causes are listed, for machines with that many cores.
const HALF: f64 = 0.5;

/// Estimated memory traffic, in bytes: of a transaction (envelope, result, receipt) and of each of its keys (prediction,
/// cell, record and two copies of the log's entry).
const TX_BYTES: f64 = 1200.0;
const KEY_BYTES: f64 = 900.0;

/// Estimated memory of a replay, in bytes per transaction: its tasks, their edges and queues.
const REPLAY_BYTES: u64 = 200;

/// A workload, measured and modelled.
#[derive(Debug)]
struct Scaled {
    blocks: Vec<BlockCosts>,
    constants: Constants,
    /// Processor time of the fastest plain run on one thread, in microseconds.
    cpu_us_per_tx: f64,
    escapes: u64,
    /// Workers, real transactions per second, modelled transactions per second.
    real: Vec<(usize, f64, f64)>,
    /// The oracle's verdict and its detail.
    verdict: (&'static str, String),
    curve: Vec<(usize, f64)>,
    /// Causes of waiting beyond the knee, and beyond half of ideal, by number of cores.
    causes: Vec<(usize, Causes)>,
}

/// Parts, with the gain in scaling without each.
type Causes = Vec<(Part, f64)>;

/// Capacities of the modelled machine besides its cores.
#[derive(Clone, Copy, Debug, Args)]
pub struct Capacity {
    /// Memory bandwidth of the modelled machine, in GB/s
    #[arg(long, default_value_t = 200.0, help_heading = heading::MODEL)]
    pub memory_gbs: f64,
    /// Memory traffic of a transaction, in bytes [default: 1200 and 900 for each of its keys, an estimate]
    #[arg(long, help_heading = heading::MODEL)]
    pub tx_memory_bytes: Option<f64>,
    /// Disk bandwidth of the modelled machine, in GB/s
    #[arg(long, default_value_t = 3.0, help_heading = heading::MODEL)]
    pub disk_gbs: f64,
    /// Disk traffic of a transaction, in bytes [default: as measured with this --store]
    #[arg(long, help_heading = heading::MODEL)]
    pub tx_disk_bytes: Option<f64>,
}

impl Capacity {
    /// Refuses capacities that no machine has.
    fn check(&self) -> Result<(), Usage> {
        let capacities = [("--memory-gbs", self.memory_gbs), ("--disk-gbs", self.disk_gbs)];
        for (name, value) in capacities {
            if !(value.is_finite() && value > 0.0) {
                return Err(Usage(format!("{name} must be above zero, not {value}")));
            }
        }
        for (name, value) in [("--tx-memory-bytes", self.tx_memory_bytes), ("--tx-disk-bytes", self.tx_disk_bytes)] {
            if value.is_some_and(|value| !(value.is_finite() && value >= 0.0)) {
                return Err(Usage(format!("{name} must be at least zero")));
            }
        }
        Ok(())
    }
}

/// Measures the load of `config` on one thread, and models it on more cores.
///
/// # Errors
/// If the settings describe no run of the DAG, a run fails, or its results differ.
pub fn run(config: &RunConfig, capacity: &Capacity, ui: &Ui) -> anyhow::Result<Output> {
    let scaled = measure(config, capacity, ui)?;
    Ok(Output {
        value: scaled.value(config, capacity),
        claim: Some(scaled.claim()),
        text: scaled.table(capacity) + &text::prepared(config.pin, config.touch),
        csv: Some(scaled.csv()),
        picture: Some(scaled.picture(config)),
    })
}

/// Numbers of real threads that the model is compared with: powers of two below the maximum, and the maximum.
fn real_threads(asked: Option<usize>, cores: usize) -> Result<Vec<usize>, Usage> {
    let most = asked.unwrap_or(cores);
    if most > cores {
        return Err(Usage(format!(
            "--threads {most}: the model is compared with real cores, of which there are {cores}"
        )));
    }
    let powers = core::iter::successors(Some(1), |threads| Some(threads * 2)).take_while(|threads| *threads < most);
    Ok(powers.chain([most]).collect())
}

/// The fastest of some runs on one number of threads.
#[derive(Clone, Copy, Debug, Default)]
struct Fastest {
    tps: f64,
    cpu_us_per_tx: f64,
}

impl Fastest {
    fn beat(&mut self, timed: &Timed) -> Result<(), Usage> {
        let succeeded = timed.count(Ended::Succeeded);
        if succeeded == 0 {
            return Err(Usage("no transaction of this load succeeds, so that it has no throughput".into()));
        }
        let tps = succeeded as f64 / timed.wall.as_secs_f64();
        if tps > self.tps {
            *self = Self { tps, cpu_us_per_tx: timed.cpu_ns as f64 / 1e3 / succeeded as f64 };
        }
        Ok(())
    }
}

/// Measures parts on one thread, then plain runs on one thread and more, in turns, and keeps the fastest of each; then
/// replays.
fn measure(config: &RunConfig, capacity: &Capacity, ui: &Ui) -> anyhow::Result<Scaled> {
    config.check()?;
    capacity.check()?;
    memory::touch(config.touch)?;
    if config.executors != [Executor::Dag] || config.signatures {
        return Err(Usage("the model is of --executor dag without --signatures".into()).into());
    }
    if config.memory != Memory::Resident || config.state.is_some() {
        return Err(Usage("the model is of a resident state, without --memory cached and --state".into()).into());
    }
    let threads = real_threads(config.threads, host::cores())?;
    let workload = workload::workload(config, workload::TX_BYTES, 2, ui)?;
    let txs = input::transactions(&*workload, config.load.txs, ui)?;
    let setup = Setup {
        config,
        workload: &*workload,
        txs: &txs,
        signed: &[],
        threads: 1,
        gate: None,
        purpose: Purpose::Measure,
    };
    let (mut best, mut best_of_many): (Option<Measured>, Option<Measured>) = (None, None);
    let mut fastest: BTreeMap<usize, Fastest> = BTreeMap::new();
    let (mut truth, mut verdict) = (None, ("off", String::new()));
    // Transactions per second of each engine: of one alone, and of two side by side.
    let mut beside = [0.0f64; 2];
    let place = |what: &str, round: usize| match config.store.path() {
        Some(path) => config.store.at(path.join(format!("{what}-{round}"))),
        None => Store::Mem,
    };
    for round in 0..config.runs {
        let measured = measure::run(&setup, &place("measured", round), Take::AsFast, ui)?;
        let of_many = measure::run(&setup, &place("of-many", round), Take::All, ui)?;
        for threads in &threads {
            let at = place(&threads.to_string(), round);
            let timed = drive::run(&setup, Executor::Dag, *threads, &at, None, ui)?;
            if timed.interrupted || ui.stopped() {
                return Err(Interrupted.into());
            }
            if truth.is_none() {
                truth = Some(oracle::consult(&setup, config.oracle, &workload::orders(&timed), ui)?);
            }
            verdict = right(oracle::judge(truth.as_ref().and_then(Option::as_ref), &timed), &timed, &measured)?;
            fastest.entry(*threads).or_default().beat(&timed)?;
        }
        if threads.iter().any(|threads| *threads > 1) {
            for (engines, best) in (1..).zip(&mut beside) {
                *best = best.max(side_by_side(&setup, engines, &measured, ui)?);
            }
        }
        for (best, measured) in [(&mut best, measured), (&mut best_of_many, of_many)] {
            if best.as_ref().is_none_or(|best| measured.cpu_ns < best.cpu_ns) {
                *best = Some(measured);
            }
        }
    }
    ui.go_on()?;
    let mut measured = best.context("no run was measured")?;
    measured.add_plans_of_many(best_of_many.context("no run was measured")?)?;
    let txs: usize = measured.blocks.iter().map(|block| block.txs).sum();
    let per_tx = |amount: f64| amount / txs.max(1) as f64;
    let memory_bytes = capacity.tx_memory_bytes.unwrap_or(TX_BYTES + KEY_BYTES * per_tx(measured.keys as f64));
    let disk_bytes = capacity.tx_disk_bytes.unwrap_or(per_tx(measured.disk_bytes as f64));
    let [one, two] = beside;
    let constants = Constants {
        crowding: if two > 0.0 { (one / two).max(1.0) } else { 1.0 },
        write_ns: per_tx(measured.write_ns),
        dispatch_ns: measure::dispatch(&measured.blocks)?,
        call_ns: CALL_NS,
        // A byte per nanosecond is a gigabyte per second.
        memory_ns: memory_bytes / capacity.memory_gbs,
        disk_ns: disk_bytes / capacity.disk_gbs,
        overlap: config.overlap,
    };
    // From here on nothing is measured, and what was has no meaning before the end.
    ui.prepares();
    let model = Model { blocks: &measured.blocks, constants };
    // Measured costs contain the bandwidths of the real machine.
    let here = Model { constants: Constants { memory_ns: 0.0, disk_ns: 0.0, ..constants }, ..model };
    let workers: Vec<Replay> = fastest.keys().map(|workers| Replay::new(*workers, host::cores())).collect();
    let modelled = replay(&here, &workers, "replaying the real runs", ui)?;
    let real = fastest.iter().zip(modelled).map(|((workers, fastest), model)| (*workers, fastest.tps, model)).collect();
    let tps = replay(&model, &knee::of_curve(), "replaying on more cores", ui)?;
    let curve: Vec<(usize, f64)> = knee::CORES.into_iter().zip(tps).collect();
    // Without a knee, the causes at the most cores are listed.
    let beyond = knee::knee(&curve, constants.crowding, ENOUGH).map_or(knee::MOST, |knee| knee.beyond);
    let half = knee::knee(&curve, constants.crowding, HALF).map(|knee| knee.beyond).filter(|half| *half != beyond);
    let of_causes = |cores: usize| -> anyhow::Result<(usize, Causes)> {
        let what = format!("replaying without each part, {cores} cores");
        Ok((cores, knee::causes(&replay(&model, &knee::of_causes(cores), &what, ui)?)))
    };
    let causes = [beyond].into_iter().chain(half).map(of_causes).collect::<anyhow::Result<_>>()?;
    let cpu_us_per_tx = fastest.get(&1).map_or(0.0, |fastest| fastest.cpu_us_per_tx);
    let escapes = measured.escapes;
    Ok(Scaled { blocks: measured.blocks, constants, cpu_us_per_tx, escapes, real, verdict, curve, causes })
}

/// Transactions per second of some replays, side by side as far as memory allows.
fn replay(model: &Model<'_>, replays: &[Replay], what: &str, ui: &Ui) -> anyhow::Result<Vec<f64>> {
    let txs: usize = model.blocks.iter().map(|block| block.txs).sum();
    let most = host::available_memory() / (txs as u64).saturating_mul(REPLAY_BYTES).max(1);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    parallel::all((ui, what), most, replays, Replay::to_string, |replay| Ok(model.tps(replay)))
}

/// Mean transactions per second of `engines` engines of one thread that run at the same time. Their states are in memory, so
/// that no writer takes part.
fn side_by_side(setup: &Setup<'_>, engines: usize, measured: &Measured, ui: &Ui) -> anyhow::Result<f64> {
    // Pinned engines would all be on the first core.
    let config = RunConfig { pin: false, store: Store::Mem, ..setup.config.clone() };
    let spinner = ui.spinner(&format!("{engines} of one thread, side by side"));
    let (hushed, others) = (ui.hushed(), Barrier::new(engines));
    let runs: Vec<anyhow::Result<Timed>> = std::thread::scope(|scope| {
        let run = || {
            let gate = Gate::new(&others);
            let setup = Setup { config: &config, gate: Some(&gate), ..*setup };
            drive::run(&setup, Executor::Dag, 1, &config.store, None, &hushed)
        };
        let runs: Vec<_> = (0..engines).map(|_| scope.spawn(run)).collect();
        runs.into_iter().map(|run| run.join().expect("a run that fails says so")).collect()
    });
    spinner.finish_and_clear();
    let mut sum = 0.0;
    for timed in runs {
        let timed = timed?;
        if timed.interrupted || ui.stopped() {
            return Err(Interrupted.into());
        }
        right(("off", String::new()), &timed, measured)?;
        let mut one = Fastest::default();
        one.beat(&timed)?;
        sum += one.tps;
    }
    Ok(sum / engines as f64)
}

/// The verdict on a run; an error if it is wrong or ends in another state than the measured run.
fn right(
    verdict: (&'static str, String),
    timed: &Timed,
    measured: &Measured,
) -> Result<(&'static str, String), Different> {
    let threads = text::threads(timed.threads);
    if verdict.0 == "mismatch" {
        return Err(Different(format!("the run on {threads} is wrong: {}", verdict.1)));
    }
    let root = timed.blocks.last().map(|block| block.state_root).unwrap_or_default();
    if root != measured.state_root {
        let ours = measured.state_root;
        return Err(Different(format!("the run on {threads} ended in {root}, the measured run in {ours}")));
    }
    Ok(verdict)
}

impl Scaled {
    fn knee(&self) -> Option<usize> {
        knee::knee(&self.curve, self.constants.crowding, ENOUGH).map(|knee| knee.at)
    }

    /// Largest deviation of the model from real runs.
    fn deviation(&self) -> f64 {
        self.real.iter().map(|(_, real, model)| (model / real - 1.0).abs()).fold(0.0, f64::max)
    }

    /// True if the model was compared on more than one worker: on one it only adds up costs.
    fn is_compared(&self) -> bool {
        self.real.iter().any(|(workers, ..)| *workers > 1)
    }

    fn validated(&self) -> bool {
        self.is_compared() && self.deviation() <= WITHIN
    }

    /// Nanoseconds per transaction on one thread, by part.
    fn parts(&self) -> Vec<(Part, f64)> {
        let txs: usize = self.blocks.iter().map(|block| block.txs).sum();
        let sum = |spans: &mut dyn Iterator<Item = &Span>| spans.map(|span| span.ns).sum::<f64>() / txs.max(1) as f64;
        let of = |part: Part| match part {
            // Only on the code path of many workers.
            Part::Intern => {
                let spans = self.blocks.iter().flat_map(|block| block.plan(usize::MAX));
                sum(&mut spans.filter(|span| span.part == part))
            }
            Part::Write => self.constants.write_ns,
            Part::Memory => self.constants.memory_ns,
            Part::Disk => self.constants.disk_ns,
            part => {
                let spans = self.blocks.iter().flat_map(BlockCosts::spans);
                sum(&mut spans.filter(|span| span.part == part))
            }
        };
        Part::ALL.into_iter().map(|part| (part, of(part))).collect()
    }

    fn efficiency(&self, cores: usize, tps: f64) -> f64 {
        tps / knee::ideal(&self.curve, self.constants.crowding, cores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_compared_with_powers_of_two_up_to_what_there_is() {
        let threads = |asked, cores| real_threads(asked, cores).unwrap();
        assert_eq!((threads(None, 1), threads(None, 2)), (vec![1], vec![1, 2]));
        assert_eq!(threads(None, 96), [1, 2, 4, 8, 16, 32, 64, 96], "as many as there are");
        assert_eq!((threads(Some(1), 96), threads(Some(12), 96)), (vec![1], vec![1, 2, 4, 8, 12]));
        assert_eq!(threads(Some(8), 8), [1, 2, 4, 8]);
        assert!(real_threads(Some(3), 2).is_err());
    }

    fn scaled(real: &[(usize, f64, f64)], curve: Vec<(usize, f64)>) -> Scaled {
        let (write_ns, dispatch_ns, call_ns, memory_ns, disk_ns) = (0.0, 0.0, 0.0, 0.0, 0.0);
        Scaled {
            blocks: vec![],
            constants: Constants { crowding: 1.0, write_ns, dispatch_ns, call_ns, memory_ns, disk_ns, overlap: true },
            cpu_us_per_tx: 2.0,
            escapes: 0,
            real: real.into(),
            verdict: ("match", "all blocks".into()),
            curve,
            causes: vec![],
        }
    }

    #[test]
    fn one_worker_validates_nothing() {
        let curve = || knee::CORES.map(|cores| (cores, cores as f64)).to_vec();
        let capacity = Capacity { memory_gbs: 1.0, tx_memory_bytes: None, disk_gbs: 1.0, tx_disk_bytes: None };
        let alone = scaled(&[(1, 100.0, 100.0)], curve());
        assert!(!alone.validated() && alone.table(&capacity).contains("compared with one worker only"));
        assert!(scaled(&[(1, 100.0, 100.0), (2, 190.0, 195.0)], curve()).validated());
        assert!(!scaled(&[(1, 100.0, 100.0), (2, 190.0, 210.0)], curve()).validated());
        let told = alone.table(&capacity);
        assert!(told.contains("No knee: 256 cores have 90 % of ideal.") && !told.contains("Knee:"), "{told}");
        assert_eq!(alone.knee(), None);
    }

    #[test]
    fn a_doubt_is_in_text_and_picture_alike() {
        let capacity = Capacity { memory_gbs: 1.0, tx_memory_bytes: None, disk_gbs: 1.0, tx_disk_bytes: None };
        let curve = || knee::CORES.map(|cores| (cores, 1.0)).to_vec();
        let off = scaled(&[(1, 100.0, 100.0), (2, 100.0, 388.0)], curve());
        let (told, drawn) = (off.table(&capacity), off.picture(&RunConfig::default()).inline());
        for text in [&told, &drawn] {
            assert!(text.contains("NOT VALIDATED: the model is off by 288 % here"), "{text}");
        }
        assert!(drawn.contains("NOT VALIDATED: throughput by cores, knee at 1 core<"), "{drawn}");
        assert!(told.contains("Knee: 1 core, the most"), "{told}");
        assert!(drawn.contains("Squares: FAFO, Table 1: 96 vCPUs"), "{drawn}");
        let good = scaled(&[(1, 100.0, 100.0), (2, 190.0, 195.0)], curve());
        assert!(!good.picture(&RunConfig::default()).inline().contains("NOT VALIDATED"));
    }
}
