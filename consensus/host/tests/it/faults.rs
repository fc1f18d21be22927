//! Crashes, loss, cuts and wrong results: one outcome per height, and alive again once the network is.

use crate::cluster::{Cluster, Net, Setup};
use phalanx_bft::{Protocol, autobahn::Autobahn, pbft::Pbft, sbft::Sbft};
use phalanx_sim::model::Costs;
use phalanx_world::Facts;
use std::collections::BTreeSet;

/// A cluster after random crashes, cuts that hold or lose, and losses, all drawn from the seed; then healed and at rest.
fn world<P: Facts>(seed: u64) -> Net<P> {
    world_with(seed, |_| {})
}

/// The same, with a cluster that is prepared first.
pub(crate) fn world_with<P: Facts>(seed: u64, prepare: impl FnOnce(&mut Net<P>)) -> Net<P> {
    let n = if seed % 4 == 3 { 7 } else { 4 };
    let costs = Costs { execute_us: 200, stage_us: 300, flip_us: 50, ..Costs::default() };
    let (persist, lost) = (seed % 3 * 150, (seed % 2 * 50) as u32);
    let setup = Setup { persist, lost, jitter: 1_500, costs, interval: 4, timeout: 30_000, seed, ..Setup::new(n) };
    let setup = Setup { compacts: seed.is_multiple_of(2), ..setup };
    let mut cluster = Net::new(setup);
    prepare(&mut cluster);
    (0..30).for_each(|number| cluster.submit(number * 4_000, number));
    for _ in 0..8 {
        match cluster.random(4) {
            0 => {
                let (group, holds) = ((0..cluster.random(n as u64) as usize).collect(), cluster.random(2) == 0);
                cluster.separate(group, holds);
            }
            1 => cluster.separate(BTreeSet::new(), false),
            2 => (0..n).for_each(|node| cluster.crash(node, 5_000)),
            _ => {
                let (node, downtime) = (cluster.random(n as u64) as usize, cluster.random(60_000));
                cluster.crash(node, 100 + downtime);
            }
        }
        let pause = cluster.random(40_000);
        cluster.run(cluster.now() + pause);
    }
    cluster.heal();
    // A client repeats what was not answered.
    (100..104).for_each(|number| cluster.submit(200_000, number));
    for _ in 0..600 {
        cluster.run(cluster.now() + 100_000);
        let height = cluster.lowest();
        if height > 0 && (0..n).all(|node| cluster.height(node) == height) && cluster.now() > 2_000_000 {
            break;
        }
    }
    cluster
}

fn worlds<P: Facts>() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (worlds, first) = (number("PHALANX_WORLDS").unwrap_or(80), number("PHALANX_SEED").unwrap_or(0));
    let mut blocks = 0;
    for seed in first..first + worlds {
        let mut cluster = world::<P>(seed);
        let (n, height) = (cluster.setup.n, cluster.lowest());
        assert!(
            height > 0 && cluster.halted.is_empty(),
            "seed {seed}: height {height}, halted {:?}\n{}",
            cluster.halted,
            cluster.describe()
        );
        assert!(
            (0..n).all(|node| cluster.height(node) == height),
            "seed {seed}: heights differ\n{}",
            cluster.describe()
        );
        assert!((0..n).all(|node| cluster.root(node) == cluster.root(0)), "seed {seed}: roots differ");
        assert!(cluster.accused.is_empty(), "seed {seed}: {:?} are said to contradict themselves", cluster.accused);
        for node in 0..n {
            let unnamed = cluster.unnamed(node);
            assert!(unnamed.is_empty(), "seed {seed}: node {node} has lost the results of {unnamed:?}");
        }
        blocks += height;
    }
    println!("{worlds} worlds from seed {first}: {blocks} blocks at every node");
}

/// `PHALANX_WORLDS` sets the number of worlds, `PHALANX_SEED` the first seed.
#[test]
fn random_crashes_cuts_and_losses_leave_one_outcome_per_height() {
    worlds::<Pbft>();
}

#[test]
fn random_crashes_cuts_and_losses_with_collectors() {
    worlds::<Sbft>();
}

#[test]
fn random_crashes_cuts_and_losses_with_lanes() {
    worlds::<Autobahn>();
}

fn histories<P: Facts>() {
    let traces: BTreeSet<u64> = (0..8).map(|seed| world::<P>(seed).trace).collect();
    assert_eq!(traces.len(), 8, "other seeds, other histories");
    assert_eq!((0..8).map(|seed| world::<P>(seed).trace).collect::<BTreeSet<_>>(), traces);
}

#[test]
fn equal_seeds_have_equal_histories() {
    histories::<Pbft>();
}

/// Frames that a cut holds arrive when it ends: nothing has to be repeated, and no view is left.
#[test]
fn a_cut_that_holds_loses_nothing() {
    let mut cluster = Cluster::new(Setup { timeout: 5_000_000, resend: 60_000_000, ..Setup::new(4) });
    (0..20).for_each(|number| cluster.submit(number * 1_000, number));
    cluster.run(5_000);
    cluster.separate([0, 1].into(), true);
    cluster.run(1_000_000);
    let before = cluster.lowest();
    assert!(before < 20, "two of four decide nothing");
    cluster.separate(BTreeSet::new(), false);
    cluster.run(1_100_000);
    assert_eq!(cluster.lowest(), 20, "{}", cluster.describe());
    assert_eq!(cluster.host(0).protocol().map(Protocol::view), Some(0));
}

fn away_past_checkpoints<P: Facts>() {
    let mut cluster = Net::<P>::new(Setup { interval: 8, persist: 50, timeout: 20_000, ..Setup::new(4) });
    cluster.run(10_000);
    cluster.crash(3, 3_000_000);
    (0..200).for_each(|number| cluster.submit(number * 10_000, number));
    cluster.run(2_900_000);
    assert!(cluster.height(0) >= 200 && cluster.height(3) == 0, "{}", cluster.describe());
    cluster.run(6_000_000);
    assert_eq!((cluster.height(3), cluster.root(3)), (cluster.height(0), cluster.root(0)));
}

#[test]
fn a_node_that_was_away_past_checkpoints_catches_up_from_a_peer() {
    away_past_checkpoints::<Pbft>();
    away_past_checkpoints::<Sbft>();
    away_past_checkpoints::<Autobahn>();
}

#[test]
fn a_node_with_a_wrong_result_halts_and_the_others_go_on() {
    let mut cluster = Cluster::new(Setup { interval: 8, ..Setup::new(4) });
    cluster.diverge(2, 5);
    (0..20).for_each(|number| cluster.submit(number * 10_000, number));
    cluster.run(2_000_000);
    assert_eq!(cluster.halted.iter().copied().collect::<Vec<_>>(), [2]);
    assert_eq!(cluster.lowest(), 20);
}

/// A log that is compacted holds the retained blocks and the window, however long the node runs.
#[test]
fn a_compacted_log_is_bounded_and_restores_the_node() {
    let setup = Setup { interval: 8, persist: 50, retention: 16, compacts: true, ..Setup::new(4) };
    let mut cluster = Cluster::new(setup);
    (0..400).for_each(|number| cluster.submit(number * 5_000, number));
    let mut most = 0;
    for step in 1..=24 {
        cluster.run(step * 100_000);
        most = most.max((0..4).map(|node| cluster.records(node)).max().expect("nodes"));
        cluster.crash((step % 4) as usize, 3_000);
    }
    cluster.run(6_000_000);
    assert!(cluster.halted.is_empty() && (0..4).all(|node| cluster.height(node) == cluster.height(0)));
    assert!(cluster.height(0) >= 100 && most < 400, "height {}, {most} records", cluster.height(0));
    assert!((0..4).all(|node| cluster.root(node) == cluster.root(0)));
}

/// All lose their power between the commit of a checkpoint's block and its announcement; the checkpoint is announced after all.
#[test]
fn a_checkpoint_that_no_replica_could_announce_is_announced_after_the_restart() {
    for at in (1_000..40_000).step_by(3_000) {
        let mut cluster = Cluster::new(Setup { interval: 4, persist: 400, ..Setup::new(4) });
        (0..40).for_each(|number| cluster.submit(number * 1_000, number));
        for _ in 0..6 {
            cluster.run(cluster.now() + at);
            (0..4).for_each(|node| cluster.crash(node, 1_000));
        }
        (100..140).for_each(|number| cluster.submit(50_000 + number * 100, number));
        cluster.run(cluster.now() + 20_000_000);
        assert!(cluster.height(0) >= 40, "at {at}: height {}\n{}", cluster.height(0), cluster.describe());
    }
}
