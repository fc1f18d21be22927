//! The toy against its latency on paper, and in random worlds with every fault at once.

use crate::toy::{Config, Toy};
use phalanx_bft::{Domain, Quorums};
use phalanx_world::{Conditions, Facts as _, Links, Pace, World};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

fn config(n: usize) -> Config {
    let quorums = Quorums::new(n, (n - 1) / 3).expect("a legal size");
    Toy::config(quorums, Domain::default(), Pace { interval: 8, timeout: 20_000, resend: 5_000 })
}

#[test]
fn a_batch_is_decided_everywhere_after_two_delays() {
    for n in [4, 7, 16] {
        for delay in [1, 1_000] {
            let mut world = World::<Toy>::new(Conditions { links: Links::after(delay), ..Conditions::new(config(n)) });
            world.request(500, 1);
            world.run(1_000_000);
            assert_eq!(world.ledger.times[&1], (500 + 2 * delay, 500 + 2 * delay, n), "n = {n}");
            assert_eq!((world.ledger.violation.as_deref(), world.unexecuted()), (None, 0));
        }
    }
}

/// A world whose backups lie or are silent; the primary is correct.
fn world(seed: u64, is_hasty: bool) -> Result<World<Toy>, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let n = [4, 5, 7][rng.random_range(0..3)];
    let mut setup = Conditions { seed, ..Conditions::new(Config { is_hasty, ..config(n) }) };
    setup.draw(&mut rng);
    setup.corrupt(rng.random_range(0..=(n - 1) / 3), n, 1, &mut rng);
    let mut world = World::<Toy>::new(setup);
    for number in 0..rng.random_range(1..24) {
        world.request(rng.random_range(0..150_000), number);
    }
    for step in 0..rng.random_range(1..12) {
        world.disturb(n, step, &mut rng)?;
    }
    world.recovered()
}

#[test]
fn random_worlds_agree_and_recover() {
    let mut decided = 0;
    for seed in 0..200 {
        let world = world(seed, false).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        assert_eq!(world.unexecuted(), 0, "seed {seed}: not everything is executed\n{}", world.describe());
        decided += world.ledger.decided.len();
    }
    println!("200 worlds, {decided} slots");
    assert!(decided > 1_000);
}

#[test]
fn an_acceptance_before_its_record_is_noticed() {
    assert!((0..20).any(|seed| world(seed, true).is_err()));
}
