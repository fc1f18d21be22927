//! Latencies and numbers of messages that follow from the rounds, exact to the microsecond of virtual time.

use phalanx_bft::{
    Domain, Index, Micros, Protocol as _, Quorums,
    sbft::{Config, FastWait, Paths, Replies, Sbft},
};
use phalanx_world::{Conditions, Links, World};
use std::collections::BTreeSet;

/// Time of the request.
const AT: Micros = 500;

fn config(n: usize, f: usize) -> Config {
    let quorums = Quorums::new(n, f).expect("a legal size");
    Config {
        timeout: 1_000_000,
        resend: 10_000_000,
        help: 500_000,
        stagger: 60_000,
        fast_wait: FastWait { least: 700, most: 700 },
        ..Config::new(quorums, Domain::unnamed(1, 0))
    }
}

fn world(config: Config, delay: Micros, execute: Micros, silent: &[Index]) -> World<Sbft> {
    let silent = silent.iter().copied().collect();
    let mut world = World::new(Conditions { links: Links::after(delay), execute, silent, ..Conditions::new(config) });
    world.request(AT, 1);
    world.run(50_000_000);
    assert_eq!(world.ledger.violation, None);
    world
}

/// A backup that collects nothing for slot 1.
fn bystander(config: &Config) -> Index {
    let busy: BTreeSet<Index> = config.collectors(1, 0).chain(config.executors(1)).chain([Index(0)]).collect();
    config.quorums.replicas().find(|index| !busy.contains(index)).expect("a replica without a part")
}

/// Delays from a decision to the certificate. With f = 1 the commit collector, which decides a delay before the others, and the
/// execution collector are already f+1 replicas, if they are two.
fn certified(config: &Config, rank: usize) -> Micros {
    let (commit, execute) = (config.collectors(1, 0).nth(rank), config.executors(1).next());
    if config.quorums.f() == 1 && commit != execute { 0 } else { 1 }
}

const SIZES: [(usize, usize); 5] = [(4, 1), (6, 1), (7, 2), (9, 2), (13, 4)];

#[test]
fn the_fast_path_orders_after_three_delays_and_answers_with_one_message() {
    for (n, f) in SIZES {
        for (delay, execute) in [(1, 0), (333, 7), (1_000, 250), (25_000, 1_000)] {
            let world = world(config(n, f), delay, execute, &[]);
            let (_, last, replicas) = world.ledger.times[&1];
            assert_eq!((last, replicas), (AT + 3 * delay, n), "n = {n}, delay = {delay}");
            // The request and the answer take a delay each: 6 + e together.
            let certified = certified(&config(n, f), 0);
            assert_eq!(world.ledger.answers[&1], (AT + (3 + certified) * delay + execute, 1));
        }
    }
}

#[test]
fn the_slow_path_costs_its_wait_and_two_delays_more() {
    for (n, f) in SIZES {
        for (delay, execute, wait) in [(333, 7, 700), (1_000, 250, 5_000), (25_000, 1_000, 0)] {
            // c+1 silent replicas are one too many for the fast path.
            let config = Config { fast_wait: FastWait { least: wait, most: wait }, ..config(n, f) };
            let busy: BTreeSet<Index> = config.collectors(1, 0).chain(config.executors(1)).chain([Index(0)]).collect();
            let idle = config.quorums.replicas().filter(|index| !busy.contains(index));
            let silent: Vec<Index> = idle.take(config.c() + 1).collect();
            if silent.len() < config.c() + 1 || silent.len() > f {
                continue;
            }
            let certified = certified(&config, 0);
            let world = world(config, delay, execute, &silent);
            let (_, last, replicas) = world.ledger.times[&1];
            assert_eq!((last, replicas), (AT + 5 * delay + wait, n - silent.len()), "n = {n}, delay = {delay}");
            assert_eq!(world.ledger.answers[&1], (AT + (5 + certified) * delay + wait + execute, 1));
        }
    }
}

#[test]
fn each_silent_collector_costs_its_turn() {
    for (n, f) in [(6, 1), (9, 2), (11, 2), (16, 3)] {
        let config = config(n, f);
        for silent in 0..=config.c().min(f) {
            let collectors: Vec<Index> = config.collectors(1, 0).take(silent).collect();
            let turn = config.stagger;
            if config.executors(1).any(|index| collectors.contains(&index)) {
                continue;
            }
            let world = world(config.clone(), 1_000, 250, &collectors);
            let (_, last, replicas) = world.ledger.times[&1];
            let waited = silent as u64 * turn;
            assert_eq!((last, replicas), (AT + 3_000 + waited, n - silent), "n = {n}, {silent} silent");
            let answered = AT + (3 + certified(&config, silent)) * 1_000 + 250 + waited;
            assert_eq!(world.ledger.answers[&1].0, answered);
        }
    }
}

/// With c = 0 the only collector is silent: replicas turn to the primary after their patience.
#[test]
fn the_primary_is_the_last_collector() {
    let config = config(4, 1);
    let collector = config.collectors(1, 0).next().expect("one collector");
    let help = config.help;
    let world = world(config, 1_000, 0, &[collector]);
    // Shares are sent again at 1 + help; PREPARE, COMMIT, the proof.
    assert_eq!(world.ledger.times[&1].1, AT + 1_000 + help + 4_000);
    assert_eq!(world.replica(1).map(|replica| replica.view()), Some(0), "no view change");
}

#[test]
fn linear_pbft_orders_after_five_delays() {
    for (n, f) in SIZES {
        for (delay, execute) in [(333, 7), (1_000, 250)] {
            let linear = Config { paths: Paths::Linear, replies: Replies::Each, ..config(n, f) };
            let world = world(linear, delay, execute, &[]);
            assert_eq!(world.ledger.times[&1].1, AT + 5 * delay);
            assert!(world.ledger.answers.is_empty(), "clients have f+1 answers of their own");
        }
    }
}

#[test]
fn silent_primaries_cost_their_timeouts_and_four_or_six_delays() {
    for (n, f) in [(4, 1), (6, 1), (9, 2), (16, 3)] {
        let config = Config { timeout: 100_000, ..config(n, f) };
        for k in 1..=f {
            let silent: Vec<Index> = (0..k as u16).map(Index).collect();
            let (timeout, wait, c) = (config.timeout, config.fast_wait.least, config.c());
            let view = k as u64;
            // A collector among the silent ones has its turn first.
            let ahead = config.collectors(1, view).take_while(|index| silent.contains(index)).count();
            if ahead > 0 {
                continue;
            }
            let world = world(config.clone(), 1_000, 0, &silent);
            let waits: Micros = (1..k as u32).map(|i| 1_000 + (timeout << (i - 1))).sum();
            let path = if k <= c { 4_000 } else { 6_000 + wait };
            assert_eq!(world.ledger.times[&1].1, AT + timeout + waits + path, "n = {n}, k = {k}");
        }
    }
}

/// k collectors at once: (2k+1)(n-1) on the fast path, (4k+1)(n-1) on the slow one, 2k(n-1) for the certificate.
#[test]
fn messages_per_slot_are_linear() {
    for (n, f) in [(4, 1), (6, 1), (9, 2), (16, 3), (193, 64), (209, 64)] {
        let at_once = Config { stagger: 0, ..config(n, f) };
        let k = at_once.c() as u64 + 1;
        let linear = Config { replies: Replies::Each, ..at_once.clone() };
        let others = n as u64 - 1;
        for (config, messages) in [
            (linear.clone(), (2 * k + 1) * others),
            (at_once, (2 * k + 1) * others + 2 * k * others),
            (Config { paths: Paths::Linear, ..linear.clone() }, (4 * k + 1) * others),
        ] {
            let mut world = World::<Sbft>::new(Conditions { execute: 1, ..Conditions::new(config) });
            // Once the greetings of the start are through.
            world.run(5_000);
            let before = world.delivered;
            world.request(500, 1);
            world.run(1_000_000);
            assert_eq!(world.delivered - before, messages, "n = {n}, k = {k}");
            assert_eq!(world.ledger.times[&1].2, n);
            assert_eq!(world.ledger.violation, None);
        }
    }
}

/// Collectors act one after the other: the others only watch.
#[test]
fn staggered_collectors_only_watch() {
    let config = config(6, 1);
    let mut world = World::<Sbft>::new(Conditions { execute: 1, ..Conditions::new(config) });
    world.run(5_000);
    let before = world.delivered;
    world.request(500, 1);
    world.run(1_000_000);
    // Proposal and proof to 5, shares to 2 collectors; states to 2, the certificate to 5.
    assert_eq!(world.delivered - before, 5 + 10 + 5 + 10 + 5);
}

#[test]
fn a_window_of_batches_is_ordered_as_fast_as_one() {
    let config = Config { active: Some(64), ..config(4, 1) };
    let mut world = World::<Sbft>::new(Conditions::new(config));
    for number in 0..64 {
        world.request(500, number);
    }
    world.run(10_000_000);
    assert!(world.ledger.times.values().all(|(_, last, replicas)| (*last, *replicas) == (3_500, 4)));
    assert_eq!(world.ledger.times.len(), 64);
}

/// The wait for the fast path follows the delays of the past, and vanishes where it is in vain.
#[test]
fn the_wait_for_the_fast_path_adapts() {
    let adaptive = Config { fast_wait: FastWait { least: 10, most: 50_000 }, ..config(4, 1) };
    let silent = bystander(&adaptive);
    let mut world = World::<Sbft>::new(Conditions {
        links: Links { jitter: 400, ..Links::default() },
        silent: [silent].into_iter().collect(),
        ..Conditions::new(adaptive.clone())
    });
    for number in 0..120 {
        world.request(number * 100_000, number);
    }
    world.run(20_000_000);
    let waits: Vec<Micros> = (0..4).filter_map(|node| world.replica(node)).map(Sbft::fast_wait).collect();
    assert!(waits.iter().filter(|wait| **wait < 100).count() >= 2, "{waits:?}");
    // Nothing fails: the wait is a little more than the usual delay between τ and σ.
    let mut world = World::<Sbft>::new(Conditions {
        links: Links { jitter: 400, ..Links::default() },
        ..Conditions::new(adaptive)
    });
    for number in 0..120 {
        world.request(number * 100_000, number);
    }
    world.run(20_000_000);
    let waits: Vec<Micros> = (1..4).filter_map(|node| world.replica(node)).map(Sbft::fast_wait).collect();
    assert!(waits.iter().all(|wait| (20..=600).contains(wait)), "{waits:?}");
    assert_eq!(world.ledger.violation, None);
}

/// While nothing fails, the sum of all shares is the proof; a silent replica costs one wait, then 3f+c+1 shares are enough.
#[test]
fn the_signature_of_all_is_left_where_a_replica_is_silent() {
    let config = Config { all_wait: Some(2_000), ..config(6, 1) };
    let healthy = world(config.clone(), 1_000, 0, &[]);
    assert_eq!(healthy.ledger.times[&1].1, AT + 3_000);
    let silent = bystander(&config);
    let mut world =
        World::<Sbft>::new(Conditions { silent: [silent].into_iter().collect(), ..Conditions::new(config) });
    for number in 0..60 {
        world.request(AT + number * 100_000, number);
    }
    world.run(20_000_000);
    let late = world.ledger.times.iter().filter(|(slot, (_, last, _))| *last > AT + (**slot - 1) * 100_000 + 3_000);
    // One slot for each collector, or for two where the first one is silent.
    assert!(late.count() <= 30, "{:?}", world.ledger.times);
    assert_eq!(world.ledger.times.len(), 60);
}

#[test]
fn equal_seeds_give_equal_traces() {
    let trace = |seed| {
        let setup = Conditions {
            seed,
            links: Links { lost: 50, jitter: 2_000, ..Links::default() },
            persist: 50,
            ..Conditions::new(config(6, 1))
        };
        let mut world = World::<Sbft>::new(setup);
        (0..20).for_each(|number| drop(world.request(number * 700, number)));
        world.run(20_000_000);
        (world.trace, world.delivered)
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}
