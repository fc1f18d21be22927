//! Latencies that follow from the rounds, exact to the microsecond of virtual time.

use phalanx_bft::{
    Domain, Index, Quorums,
    rounds::{Config, Rounds},
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
            let mut world =
                World::<Rounds>::new(Conditions { links: Links::after(delay), ..Conditions::new(config(n)) });
            world.request(500, 1);
            world.run(400_000);
            let (_, last, replicas) = world.ledger.times[&1];
            assert_eq!((last, replicas), (500 + 3 * delay, n), "n = {n}, delay = {delay}");
            assert_eq!((world.ledger.violation.clone(), world.unexecuted()), (None, 0));
        }
    }
}

/// Leaders propose on blocks that they have seen: a block per delay.
#[test]
fn blocks_come_one_delay_apart() {
    let delay = 1_000;
    let mut world = World::<Rounds>::new(Conditions { links: Links::after(delay), ..Conditions::new(config(4)) });
    (0..40).for_each(|number| drop(world.request(500, number)));
    world.run(90_000);
    assert_eq!((world.ledger.violation.clone(), world.unexecuted(), world.height()), (None, 0, 40));
    let last = world.ledger.times[&40].1;
    assert_eq!(last, 500 + 39 * delay + 3 * delay);
}

/// The leader of the first view is silent: its timeout, the nullifies, and three delays more.
#[test]
fn a_silent_leader_costs_its_timeout_and_a_delay() {
    for delay in [10, 1_000] {
        let config = config(4);
        let timeout = config.timeout;
        let silent = [Index(1)].into();
        let mut world =
            World::<Rounds>::new(Conditions { links: Links::after(delay), silent, ..Conditions::new(config) });
        world.request(500, 1);
        world.run(400_000);
        assert_eq!(world.ledger.times[&1].1, 500 + timeout + 4 * delay, "delay = {delay}");
        assert_eq!(world.ledger.violation, None);
    }
}
