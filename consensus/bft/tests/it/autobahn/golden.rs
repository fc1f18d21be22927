//! Latencies that follow from the messages alone, exact to 1 µs: uniform delay, one car, nothing queues.

use super::World;
use phalanx_bft::{
    Domain, Index, Micros, Quorums,
    autobahn::{Config, Spread, Tips},
};
use phalanx_world::{Conditions, Links};

const DELAY: Micros = 1_000;

fn config(n: usize) -> Config {
    Config { coverage: 1, ..Config::new(Quorums::new(n, (n - 1) / 3).expect("a legal size"), Domain::default()) }
}

/// Time from a batch's arrival at one replica until every correct one can execute it.
fn latency(config: Config, at: usize, silent: &[usize]) -> Micros {
    let mut world = World::new(Conditions {
        links: Links::after(DELAY),
        silent: silent.iter().map(|node| Index(*node as u16)).collect(),
        ..Conditions::new(config)
    });
    world.request_at(500, 1, vec![at]);
    world.run(60_000_000);
    assert_eq!(world.ledger.violation, None);
    world.ledger.times.get(&1).unwrap_or_else(|| panic!("no block: {}", world.describe())).1 - 500
}

#[test]
fn four_and_six_delays_with_optimistic_tips_six_and_eight_with_certified_ones() {
    for n in [4, 7, 16] {
        let base = config(n);
        // A lane whose owner does not lead the first slot, so that its car has to travel.
        let owner = (usize::from(base.leader(1, 0).0) + 1) % n;
        let slow = Config { fast: None, ..base.clone() };
        let certified = |config: &Config| Config { tips: Tips::Certified, ..config.clone() };
        let all = |config: &Config| Config { spread: Spread::AllToAll, ..config.clone() };
        let delays = |config| latency(config, owner, &[]) as f64 / DELAY as f64;
        assert_eq!(delays(base.clone()), 4.0, "n = {n}: car, PREPARE, PREP-VOTE, COMMIT");
        assert_eq!(delays(slow.clone()), 6.0, "n = {n}: and CONFIRM, CONFIRM-ACK");
        assert_eq!(delays(certified(&base)), 6.0, "n = {n}: and vote and certificate of the car");
        assert_eq!(delays(certified(&slow)), 8.0, "n = {n}");
        assert_eq!(delays(all(&base)), 3.0, "n = {n}: car, PREPARE, PREP-VOTE");
        assert_eq!(delays(all(&slow)), 4.0, "n = {n}: and CONFIRM-ACK");
    }
}

#[test]
fn the_order_takes_three_and_five_delays_from_the_leader() {
    for n in [4, 7] {
        let base = config(n);
        let leader = usize::from(base.leader(1, 0).0);
        let delays = |config| latency(config, leader, &[]) as f64 / DELAY as f64;
        let own = Config { tips: Tips::Own, ..base.clone() };
        assert_eq!(delays(own), 3.0);
        assert_eq!(delays(base.clone()), 3.0);
        assert_eq!(delays(Config { fast: None, ..base.clone() }), 5.0);
        assert_eq!(delays(Config { spread: Spread::AllToAll, ..base.clone() }), 2.0);
        assert_eq!(delays(Config { spread: Spread::AllToAll, fast: None, ..base }), 3.0);
    }
}

#[test]
fn a_silent_replica_costs_the_wait_for_its_vote() {
    for n in [4, 7] {
        let base = config(n);
        let leader = usize::from(base.leader(1, 0).0);
        let (owner, silent) = ((leader + 1) % n, (leader + 3) % n);
        let wait = base.fast.expect("a fast path");
        assert_eq!(latency(base.clone(), owner, &[silent]), 6 * DELAY + wait, "n = {n}");
        let all = Config { spread: Spread::AllToAll, ..base };
        assert_eq!(latency(all, owner, &[silent]), 4 * DELAY + wait, "n = {n}");
    }
}

#[test]
fn a_silent_leader_costs_its_timeout_six_delays_and_the_wait_for_all_votes() {
    for n in [4, 7] {
        for tips in [Tips::Certified, Tips::Optimistic] {
            let base = Config { tips, ..config(n) };
            let leader = usize::from(base.leader(1, 0).0);
            // The leader of the next view owns the lane or not: patience begins with the certificate, which others get last.
            let owner = (leader + 2) % n;
            let (timeout, wait) = (base.timeout, base.fast.expect("a fast path"));
            let begun = 3 * DELAY;
            assert_eq!(latency(base, owner, &[leader]), begun + timeout + 6 * DELAY + wait, "n = {n}, {tips:?}");
        }
    }
}

#[test]
fn slots_run_side_by_side() {
    // A car per delay and lane: the next slot is proposed one delay after the last, long before that is decided.
    let base = Config { tips: Tips::Optimistic, ..config(4) };
    let mut world = World::new(Conditions { links: Links::after(DELAY), ..Conditions::new(base) });
    for round in 0..400 {
        (0..4).for_each(|node| drop(world.request_at(500 + round * 2_000, round * 4 + node as u64, vec![node])));
    }
    world.run(3_000_000);
    assert_eq!(world.ledger.violation, None);
    assert_eq!(world.transactions(0).len(), 1_600);
    let slots = world.up(0).done();
    assert!(slots > 300, "{slots} slots in 0.8 s of 3 delays each: one after the other there would be at most 270");
}

#[test]
fn a_slot_costs_three_messages_per_backup_on_the_fast_path_and_five_on_the_slow_one() {
    for (n, fast, spread, expected) in [
        (4, true, Spread::Linear, 3 * 3),
        (4, false, Spread::Linear, 5 * 3),
        (7, true, Spread::Linear, 3 * 6),
        // PREPARE; every backup's vote to all; all order votes to all.
        (7, false, Spread::AllToAll, 6 + 6 * 6 + 7 * 6),
    ] {
        let base = config(n);
        let base = Config { spread, fast: base.fast.filter(|_| fast), ..base };
        let mut world = World::new(Conditions::new(base));
        world.request_at(500, 1, vec![0]);
        world.run(150_000);
        // Kinds of messages: car, lane vote, PREPARE, PREP-VOTE, CONFIRM, CONFIRM-ACK, COMMIT.
        let sum: usize = world.ledger.sent.range(4..=8).map(|(_, count)| count).sum();
        assert_eq!(sum, expected, "n = {n}: {:?}", world.ledger.sent);
        let car: usize = world.ledger.sent.range(1..=2).map(|(_, count)| count).sum();
        assert_eq!(car, 2 * (n - 1));
    }
}

#[test]
fn equal_seeds_give_equal_traces() {
    let trace = |seed| {
        let mut world = World::new(Conditions {
            seed,
            links: Links { lost: 50, jitter: 2_000, ..Links::default() },
            persist: 50,
            ..Conditions::new(config(4))
        });
        (0..20).for_each(|number| drop(world.request_at(number * 700, number, vec![(number % 4) as usize])));
        world.run(20_000_000);
        world.trace
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}
