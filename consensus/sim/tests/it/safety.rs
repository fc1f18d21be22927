//! Safety after every event and liveness after healing, in random worlds.
//!
//! `PHALANX_SIM_RUNS` sets their number (a nightly run takes 10000 and more); `PHALANX_SIM_SEED` runs one.

use phalanx_engine_api::Limits;
use phalanx_pipeline::Mode;
use phalanx_sim::{Behaviour, Crash, Faults, Partition, Rng, Setup, Topology, World, bft::Settings, model::Costs};

/// Number of runs of an ordinary test.
const RUNS: u64 = 200;
/// Time at which networks heal, in µs.
const HEALS: u64 = 2_000_000;
/// Time after healing by which all nodes must have made progress, in µs. Views wait up to 1.6 s after failures, and no
/// run has n - f bad leaders in a row.
const PATIENCE: u64 = 60_000_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// A world with faults of every kind, at most a third of the validators Byzantine.
fn world(seed: u64) -> Setup {
    let mut rng = Rng::new(seed).fork(1);
    let n = [4, 4, 4, 7][rng.below(4) as usize];
    let faulty = (n - 1) / 3;
    let byzantine = (0..rng.below(u64::from(faulty) + 1))
        .map(|_| match rng.below(6) {
            0 => Behaviour::Equivocate(2 + rng.below(3) as u32),
            1 | 2 => Behaviour::Traitor,
            3 => Behaviour::Withhold(rng.below(u64::from(n)) as u32),
            4 => Behaviour::Silent,
            _ => Behaviour::Diverge(1 + rng.below(20)),
        })
        .collect();
    let partitions = (0..rng.below(3))
        .map(|_| {
            let from = rng.below(HEALS);
            Partition { from, until: from + rng.below(1_000_000), group: u128::from(rng.next()) }
        })
        .collect();
    let faults = Faults {
        loss: [0, 0, 50, 200][rng.below(4) as usize],
        duplicate: [0, 100][rng.below(2) as usize],
        jitter_us: [0, 5_000, 60_000][rng.below(3) as usize],
        partitions,
        heals: HEALS,
        bandwidth: 0,
    };
    let crashes = (0..rng.below(4))
        .map(|_| {
            let node = rng.below(u64::from(n)) as u32;
            let pause = 1 + rng.below(800_000);
            if rng.chance(300) {
                let at = rng.below(HEALS);
                Crash::At { node, at, back: at + pause }
            } else {
                Crash::Step { node, step: 1 + rng.below(3_000), pause }
            }
        })
        .collect();
    Setup {
        bft: Settings {
            n,
            f: faulty,
            term: 1 + rng.below(3),
            timeout_us: 150_000,
            optimistic_proposals: rng.chance(700),
        },
        fullnodes: rng.below(3) as u32,
        topology: Topology::Uniform { validators: 1_000 + rng.below(30_000), client: 0, fullnode: 1_000 },
        faults,
        crashes,
        behaviours: byzantine,
        mode: if rng.chance(250) { Mode::Baseline } else { Mode::Optimistic },
        costs: Costs {
            execute_us: rng.below(30_000),
            root_ns_per_tx: rng.below(2_000_000),
            stage_us: rng.below(30_000),
            flip_us: rng.below(5_000),
            ..Costs::default()
        },
        limits: if rng.chance(300) { Limits { depth: 4, siblings: 2, bytes: 4096 } } else { Limits::default() },
        ..Setup::small(seed, n)
    }
}

/// Runs a seed; an error describes the failure.
fn check(seed: u64) -> Result<(), String> {
    let setup = world(seed);
    let mut world = World::new(setup.clone());
    world.run_until(HEALS + 1_000_000);
    let goal = world.ledger().height() + 5;
    let alive = world.run_to_height(goal, HEALS + PATIENCE);
    let height = world.common_height();
    let ledger = world.ledger_mut();
    ledger.close();
    if let Some(violation) = ledger.violations.first() {
        return Err(format!("seed {seed}: {violation}; {setup:?}"));
    }
    if !alive {
        return Err(format!("seed {seed}: stuck at height {height}, goal {goal}; {setup:?}"));
    }
    Ok(())
}

#[test]
fn worlds_with_faults_are_safe_and_live() {
    if let Some(seed) = number("PHALANX_SIM_SEED") {
        return check(seed).expect("safe and live");
    }
    let runs = number("PHALANX_SIM_RUNS").unwrap_or(RUNS);
    let failures: Vec<String> = (0..runs).filter_map(|seed| check(seed).err()).collect();
    assert!(
        failures.is_empty(),
        "{} of {runs} runs, for example\n{}",
        failures.len(),
        failures[..failures.len().min(3)].join("\n")
    );
}

#[test]
fn a_world_without_faults_makes_a_block_per_interval() {
    for mode in [Mode::Baseline, Mode::Optimistic] {
        let mut world = World::new(Setup { fullnodes: 2, mode, ..Setup::small(1, 4) });
        world.run_until(2_000_000);
        world.ledger_mut().close();
        assert_eq!(world.ledger().violations, []);
        // A block every 20 ms, less the blocks in flight.
        assert!((93..=100).contains(&world.common_height()), "{mode:?}: {}", world.common_height());
    }
}

#[test]
fn one_seed_is_one_history() {
    let mut traces = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let run = || {
            let mut world = World::new(self::world(seed));
            world.run_until(HEALS);
            (world.trace(), world.traffic(), world.ledger().height())
        };
        let first = run();
        assert_eq!(first, run(), "seed {seed}");
        traces.insert(first.0);
    }
    assert_eq!(traces.len(), 20, "different seeds are different histories");
}

/// A validator's power is cut after its first, second, third, .. step: between any two writes of its log and of its
/// engine, between writing and sending, between a commit and its report. `PHALANX_SIM_STRIDE=1` tries every step.
#[test]
fn every_step_of_a_validator_can_be_its_last() {
    let calm = |seed| Setup { fullnodes: 1, ..Setup::small(seed, 4) };
    let mut first = World::new(calm(1));
    first.run_until(300_000);
    let stride = number("PHALANX_SIM_STRIDE").unwrap_or(5).max(1);
    let mut cuts = 0;
    for step in (1..first.steps(1)).step_by(stride as usize) {
        // Alone, and together with another; the fullnode's own power as well.
        for victims in [vec![1], vec![1, 2], vec![4]] {
            let crashes = victims.iter().map(|node| Crash::Step { node: *node, step, pause: 100_000 }).collect();
            let mut world = World::new(Setup { crashes, ..calm(step) });
            let alive = world.run_to_height(40, 30_000_000);
            world.ledger_mut().close();
            assert_eq!(world.ledger().violations, [], "step {step} of {victims:?}");
            assert!(alive, "step {step} of {victims:?}: stuck at {}", world.common_height());
            cuts += 1;
        }
    }
    assert!(cuts > 100, "{cuts}");
}

#[test]
fn all_nodes_can_lose_power_at_once() {
    for at in (50_000..400_000).step_by(7_001) {
        let crashes = (0..4).map(|node| Crash::At { node, at, back: at + 50_000 + u64::from(node) }).collect();
        let mut world = World::new(Setup { crashes, ..Setup::small(at, 4) });
        let alive = world.run_to_height(40, 30_000_000);
        world.ledger_mut().close();
        assert_eq!(world.ledger().violations, [], "at {at}");
        assert!(alive, "at {at}: stuck at {}", world.common_height());
    }
}

/// Traces of the first seeds. A change of the protocol, the pipeline or the model may pin new ones; a change of
/// anything else must not need to.
#[test]
fn histories_are_pinned() {
    let traces = [0xb7175e929a31bee1, 0x8ca2583ea7409862, 0xb06c1389ae3cc31a, 0x4d44d3e2926ce0a1];
    for (seed, trace) in (0..).zip(traces) {
        let mut world = World::new(self::world(seed));
        world.run_until(HEALS + 1_000_000);
        assert_eq!(world.trace(), trace, "seed {seed}: {:#x}", world.trace());
    }
}
