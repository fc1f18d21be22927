//! Simulated worlds whose nodes run the real engine on real disks, with kills.
//!
//! `PHALANX_BLOCKS` sets the number of blocks (10000 for the long run), `PHALANX_SEED` the seed, `PHALANX_DIR` the folder of
//! the stores.

use super::{plant::store_of, *};
use phalanx::api::{ExecutionEngine as _, ReadState as _};
use phalanx_pipeline::Mode;
use phalanx_sim::{Crash, Load, Workshop as _, World};
use std::{path::PathBuf, time::Instant};

/// Number of validators.
const NODES: u32 = 4;
/// Blocks of an ordinary test.
const BLOCKS: u64 = 60;
/// Blocks per kill.
const SPACING: u64 = 12;
/// Virtual time limit of a block, even if every node is killed now and then, in µs.
const PATIENCE: u64 = 2_000_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Kills of all kinds: a third at moments unrelated to the engine, a third between two steps, a third after a write that is
/// not reported yet.
fn kills(seed: u64, blocks: u64, setup: &Setup) -> Vec<Crash> {
    let mut rng = Rng::new(seed).fork(9);
    let count = blocks / SPACING;
    let kill = |number: u64| {
        let node = rng.below(u64::from(NODES)) as u32;
        let pause = 1 + rng.below(300_000);
        // A node stages and commits each block in some thirty steps.
        let block = number * blocks / count.max(1) + rng.below(SPACING);
        match number % 3 {
            0 => {
                let at = block * setup.interval_us;
                Crash::At { node, at, back: at + pause }
            }
            1 => Crash::Step { node, step: 30 * block + rng.below(60), pause },
            _ => Crash::Write { node, write: 2 * block + rng.below(2), pause },
        }
    };
    (0..count).map(kill).collect()
}

fn setup(seed: u64, blocks: u64, mode: Mode) -> Setup {
    let mut setup = Setup { mode, load: Load::Invented(4), ..Setup::small(seed, NODES) };
    setup.crashes = kills(seed, blocks, &setup);
    setup
}

/// Result of a world: root by height, and number of executed transactions.
#[derive(Debug, PartialEq)]
struct Ran {
    trace: u64,
    roots: Vec<alloy_primitives::B256>,
    nonces: u64,
    kills: u64,
}

/// Makes `blocks` blocks with kills, lets every node catch up, and checks every node, before and after a last restart.
fn run(kind: &Store, seed: u64, blocks: u64, mode: Mode) -> Ran {
    let setup = setup(seed, blocks, mode);
    let clients = Arc::new(Clients::new(NODES, seed).expect("a load"));
    let charge = Charge::Given(setup.costs);
    let machine = |node: u32| {
        RealMachine::new(&store_of(kind, "chaos", node), &setup, &clients, charge).expect("a store that is built in")
    };
    let began = Instant::now();
    let mut world = World::on(setup.clone(), |node, _| Ok(machine(node))).expect("empty stores");
    let what = format!("seed {seed}, {blocks} blocks, {kind}, {mode:?}");
    let alive = world.run_to_height(blocks, blocks * PATIENCE);
    world.ledger_mut().close();
    assert_eq!(world.ledger().violations, [], "{what}");
    assert!(alive, "{what}: stuck at {}", world.common_height());
    let height = world.ledger().height();
    // Lagging nodes catch up with the committed height.
    assert!(world.run_to_height(height, blocks * PATIENCE), "{what}: stuck at {} of {height}", world.common_height());
    assert_eq!(world.ledger().violations, [], "{what}");
    let roots: Vec<_> = (1..=height).map(|height| world.ledger().at(height).expect("no height is missing").2).collect();
    let committed: Vec<_> = (0..NODES).map(|node| world.engine(node).expect("power").status().committed).collect();
    let nonces = {
        let state = world.engine(0).expect("power").view(phalanx::api::ViewAt::Committed).expect("a state");
        let nonce = |address| state.account(address).expect("readable").expect("funded").nonce;
        clients.accounts().addresses().map(nonce).sum()
    };
    let (trace, now, kills) = (world.trace(), world.now(), world.power_cuts());
    let writes: u64 = (0..NODES).map(|node| world.writes(node)).sum();
    drop(world);
    for (node, committed) in (0..).zip(&committed) {
        assert!(committed.height >= height, "{what}: node {node}");
        let root = roots.get(committed.height as usize - 1);
        assert!(root.is_none_or(|root| *root == committed.state_root), "{what}: node {node}");
        let workshop = machine(node).open().expect("a store that was written");
        assert_eq!(workshop.engine().status().committed, *committed, "{what}: node {node} after a last restart");
    }
    println!(
        "{what}: {height} blocks on {NODES} validators, {kills} kills, {writes} writes, {nonces} transactions, {:.1} s \
         virtual, {:.1} s here, trace {trace:#x}",
        now as f64 / 1e6,
        began.elapsed().as_secs_f64(),
    );
    Ran { trace, roots, nonces, kills }
}

/// Kinds of stores, each in a folder of its own.
fn kinds() -> (Vec<Store>, tempfile::TempDir) {
    let place = std::env::var_os("PHALANX_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(place).expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let mut kinds = vec![Store::File(at("file"))];
    if cfg!(feature = "rocksdb") {
        kinds.push(Store::Rocks(at("rocks")));
    }
    (kinds, folder)
}

#[test]
fn four_validators_lose_nothing_when_they_are_killed() {
    let blocks = number("PHALANX_BLOCKS").unwrap_or(BLOCKS);
    let seed = number("PHALANX_SEED").unwrap_or(1);
    let (kinds, _folder) = kinds();
    let ran: Vec<Ran> = kinds.iter().map(|kind| run(kind, seed, blocks, Mode::Optimistic)).collect();
    for ran in &ran {
        assert!(ran.kills >= blocks / SPACING / 2, "seed {seed}: {} kills", ran.kills);
        // Leaders invent four per block, unless back-pressure holds them back; hardly any is lost.
        assert!(ran.nonces >= 2 * blocks, "seed {seed}: {} transactions", ran.nonces);
    }
    // One seed is one history on every kind of store.
    assert!(ran.windows(2).all(|pair| pair[0] == pair[1]), "seed {seed}: the stores differ");
}

#[test]
fn the_baseline_loses_nothing_either() {
    let seed = number("PHALANX_SEED").unwrap_or(2);
    let (kinds, _folder) = kinds();
    let ran = run(&kinds[0], seed, BLOCKS / 2, Mode::Baseline);
    assert!(ran.roots.len() as u64 >= BLOCKS / 2 && ran.kills > 0, "seed {seed}: {} kills", ran.kills);
}
