//! Latencies that follow from the rounds, exact to the microsecond of virtual time.

use phalanx_bft::{
    Domain, Index, Micros, Quorums,
    pbft::{Config, Msg, Pbft},
};
use phalanx_world::{Conditions, Links, World};

fn config(n: usize) -> Config {
    let quorums = Quorums::new(n, (n - 1) / 3).expect("a legal size");
    Config { timeout: 100_000, resend: 10_000_000, ..Config::new(quorums, Domain::unnamed(1, 0)) }
}

#[test]
fn a_batch_is_ordered_everywhere_after_three_delays() {
    for n in [4, 5, 7, 8, 16, 31] {
        for delay in [1, 10, 333, 1_000, 25_000] {
            for persist in [0, 7, 100] {
                let mut world = World::<Pbft>::new(Conditions {
                    links: Links::after(delay),
                    persist,
                    ..Conditions::new(config(n))
                });
                world.request(500, 1);
                world.run(50_000_000);
                let (_, last, replicas) = world.ledger.times[&1];
                assert_eq!(replicas, n);
                // Batch and proposal at the primary; both, then the order vote, then the decision at a backup.
                let writes = if persist == 0 { 0 } else { 6 };
                assert_eq!(last, 500 + 3 * delay + writes * persist, "n = {n}, delay = {delay}, persist = {persist}");
                assert_eq!(world.ledger.violation, None);
            }
        }
    }
}

#[test]
fn a_window_of_batches_is_ordered_as_fast_as_one() {
    let mut world = World::<Pbft>::new(Conditions::new(config(4)));
    for number in 0..256 {
        world.request(500, number);
    }
    world.run(10_000_000);
    assert!(world.ledger.times.values().all(|(_, last, replicas)| (*last, *replicas) == (3_500, 4)));
    assert_eq!(world.ledger.times.len(), 256);
}

#[test]
fn silent_primaries_cost_their_timeouts_and_four_delays() {
    for n in [7, 16] {
        for silent in 1..=(n - 1) / 3 {
            for delay in [10, 1_000] {
                let config = config(n);
                let timeout = config.timeout;
                let silent: Vec<Index> = (0..silent as u16).map(Index).collect();
                let k = silent.len() as u32;
                let mut world = World::<Pbft>::new(Conditions {
                    links: Links::after(delay),
                    silent: silent.into_iter().collect(),
                    ..Conditions::new(config)
                });
                world.request(500, 1);
                world.run(50_000_000);
                let waits: Micros = (1..k).map(|i| delay + (timeout << (i - 1))).sum();
                assert_eq!(
                    world.ledger.times[&1].1,
                    500 + timeout + waits + 4 * delay,
                    "n = {n}, k = {k}, delay = {delay}"
                );
                assert_eq!(world.ledger.violation, None);
            }
        }
    }
}

#[test]
fn a_batch_costs_two_messages_per_pair_of_replicas() {
    for n in [4, 16, 193] {
        let mut world = World::<Pbft>::new(Conditions { execute: 1, ..Conditions::new(config(n)) });
        // Once the greetings of the start are through.
        world.run(5_000);
        let before = world.delivered;
        world.request(500, 1);
        world.run(1_000_000);
        // n-1 PRE-PREPARE, (n-1)(n-1) PREPARE, n(n-1) COMMIT.
        assert_eq!(world.delivered - before, 2 * (n * (n - 1)) as u64);
    }
}

#[test]
fn equal_seeds_give_equal_traces() {
    let trace = |seed| {
        let setup = Conditions {
            seed,
            links: Links { lost: 50, jitter: 2_000, ..Links::default() },
            persist: 50,
            ..Conditions::new(config(4))
        };
        let mut world = World::<Pbft>::new(setup);
        (0..20).for_each(|number| drop(world.request(number * 700, number)));
        world.run(20_000_000);
        (world.trace, world.delivered)
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

#[test]
fn only_what_travels_further_is_signed() {
    use phalanx_bft::{Message as _, NULL, pbft::Vote};
    let mut claims = Vec::new();
    Msg::Commit(Vote { view: 0, slot: 1, digest: NULL }).claims(Domain::default(), &mut claims);
    assert!(claims.is_empty());
}
