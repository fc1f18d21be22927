//! Nodes without their log, or with an older copy of it: they learn, and vote once they cannot contradict themselves.

use crate::cluster::{Net, Setup};
use phalanx_bft::{Reach, autobahn::Autobahn, pbft::Pbft, sbft::Sbft};
use phalanx_host::{Frame, Reached};
use phalanx_world::Facts;

const INTERVAL: u64 = 4;

/// A world under steady load.
pub(crate) fn world<P: Facts>(seed: u64) -> Net<P> {
    let setup = Setup { interval: INTERVAL, persist: 50, jitter: 500, timeout: 30_000, seed, ..Setup::new(4) };
    Net::new(setup)
}

/// Sends transactions, the next from `number` on, until a node speaks. Returns the height of the others when it does.
pub(crate) fn until_it_speaks<P: Facts>(cluster: &mut Net<P>, node: usize, number: &mut u64) -> u64 {
    for _ in 0..600 {
        if cluster.speaks(node) {
            return (0..4).filter(|other| *other != node).map(|other| cluster.height(other)).max().expect("others");
        }
        for _ in 0..4 {
            cluster.submit(1_000, *number);
            *number += 1;
        }
        cluster.run(cluster.now() + 20_000);
    }
    panic!("node {node} stays silent\n{}", cluster.describe());
}

/// Ends the load, and checks that all nodes come to one state.
pub(crate) fn agree<P: Facts>(cluster: &mut Net<P>, nodes: &[usize]) {
    cluster.heal();
    for _ in 0..600 {
        cluster.run(cluster.now() + 50_000);
        let height = cluster.height(nodes[0]);
        if nodes.iter().all(|node| (cluster.height(*node), cluster.root(*node)) == (height, cluster.root(nodes[0]))) {
            return;
        }
    }
    panic!("no common state\n{}", cluster.describe());
}

/// A wiped node says nothing that could contradict it, learns every block, and is one of the three that the order needs again.
fn comes_back<P: Facts>() {
    let mut cluster = world::<P>(1);
    cluster.setup.compacts = true;
    let mut number = 0;
    for _ in 0..20 {
        cluster.submit(1_000, number);
        number += 1;
        cluster.run(cluster.now() + 10_000);
    }
    cluster.run(cluster.now() + 200_000);
    let before = cluster.height(0);
    assert!(before >= 15, "{}", cluster.describe());
    cluster.wipe(3, 1_000);
    // Answers to a question of another start came late, and tell too little.
    for other in 0..3 {
        let late = Reached { start: u64::MAX, reach: Reach::default() };
        cluster.inject(3, other, Frame::Reached(late), 1_100);
    }
    cluster.run(cluster.now() + 100_000);
    assert!(!cluster.speaks(3), "it may have voted in the window above its checkpoint");
    // Its log is replaced, and read again.
    for _ in 0..6 {
        cluster.submit(1_000, number);
        number += 1;
        cluster.run(cluster.now() + 10_000);
    }
    cluster.run(cluster.now() + 100_000);
    cluster.crash(3, 1_000);
    cluster.run(cluster.now() + 50_000);
    assert!(!cluster.speaks(3), "a restart ends no silence");
    let spoke = until_it_speaks(&mut cluster, 3, &mut number);
    // The window of two intervals that it may have voted in, from a checkpoint at most one interval behind; then that of the others.
    assert!(spoke >= before + 3 * INTERVAL, "it speaks at {spoke}, and may have voted from {before} on");
    agree(&mut cluster, &[0, 1, 2, 3]);
    cluster.crash(0, 3_600_000_000);
    let height = cluster.height(1);
    (0..12).for_each(|at| cluster.submit(at * 1_000, 10_000 + at));
    agree_above(&mut cluster, &[1, 2, 3], height);
}

/// Runs until some nodes have all decided something above a height, and are at one state.
pub(crate) fn agree_above<P: Facts>(cluster: &mut Net<P>, nodes: &[usize], height: u64) {
    for _ in 0..600 {
        cluster.run(cluster.now() + 50_000);
        if nodes.iter().all(|node| cluster.height(*node) > height) {
            return agree(cluster, nodes);
        }
    }
    panic!("nothing is decided above {height}\n{}", cluster.describe());
}

#[test]
fn a_node_without_its_log_comes_back_with_views() {
    comes_back::<Pbft>();
}

#[test]
fn a_node_without_its_log_comes_back_with_collectors() {
    comes_back::<Sbft>();
}

#[test]
fn a_node_without_its_log_comes_back_with_lanes() {
    comes_back::<Autobahn>();
}

/// The folder is that of an earlier time: the node's clients are served again, behind what it has said since.
fn older_copy<P: Facts>() {
    let mut cluster = world::<P>(2);
    let mut number = 0;
    let mut load = |cluster: &mut Net<P>, count: u64| {
        for _ in 0..count {
            cluster.submit_to(3, number);
            cluster.submit(500, number);
            number += 1;
            cluster.run(cluster.now() + 8_000);
        }
    };
    load(&mut cluster, 10);
    let copy = cluster.copy(3);
    load(&mut cluster, 13);
    cluster.crash(3, 5_000);
    cluster.set_back(3, copy);
    cluster.run(cluster.now() + 50_000);
    assert!(!cluster.speaks(3));
    let mut next = 1_000;
    until_it_speaks(&mut cluster, 3, &mut next);
    agree(&mut cluster, &[0, 1, 2, 3]);
    let height = cluster.height(0);
    (0..8).for_each(|at| cluster.submit_to(3, 5_000 + at));
    agree_above(&mut cluster, &[0, 1, 2, 3], height);
    assert!(cluster.accused.is_empty(), "{:?} are said to contradict themselves", cluster.accused);
}

#[test]
fn an_older_copy_of_the_log_is_no_reason_to_vote() {
    older_copy::<Pbft>();
    older_copy::<Sbft>();
    older_copy::<Autobahn>();
}

/// Nodes lose their logs one after the other, each once the last one speaks again, while others are cut off: one block per height.
fn one_after_the_other<P: Facts>(worlds: u64) {
    for seed in 0..worlds {
        let mut cluster = world::<P>(seed);
        let mut number = 0;
        for turn in 0..4 {
            for _ in 0..3 {
                (0..3).for_each(|at| cluster.submit(at * 500, number + at));
                number += 3;
                let (group, holds) = (cluster.random(4) as usize, cluster.random(2) == 0);
                cluster.separate([group].into(), holds);
                let pause = cluster.random(30_000);
                cluster.run(cluster.now() + pause);
            }
            let victim = ((seed + turn) % 4) as usize;
            cluster.wipe(victim, 500);
            let pause = cluster.random(20_000);
            cluster.run(cluster.now() + pause);
            cluster.separate(Default::default(), false);
            until_it_speaks(&mut cluster, victim, &mut number);
        }
        agree(&mut cluster, &[0, 1, 2, 3]);
        assert!(cluster.halted.is_empty(), "seed {seed}: {:?} halted\n{}", cluster.halted, cluster.describe());
    }
}

#[test]
fn nodes_that_lose_their_logs_one_after_the_other_decide_one_block_per_height() {
    one_after_the_other::<Pbft>(5);
    one_after_the_other::<Sbft>(5);
    one_after_the_other::<Autobahn>(5);
}
