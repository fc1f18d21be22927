//! Random worlds with every fault at once: loss, jitter, cuts, crashes, silence and lies.

use phalanx_bft::{
    Domain, Index, Quorums,
    rounds::{Config, Mutation, Rounds},
};
use phalanx_world::{Conditions, World, signatures};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

fn world(seed: u64, mutation: Option<Mutation>) -> Result<World<Rounds>, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x3e0d);
    let n = *[4, 4, 4, 5, 7, 8].get(rng.random_range(0..6)).expect("six choices");
    let f = (n - 1) / 3;
    let config = Config {
        interval: *[2, 4, 16].get(rng.random_range(0..3)).expect("three choices"),
        term: rng.random_range(1..3),
        optimistic_proposals: rng.random_ratio(2, 3),
        timeout: 20_000,
        resend: 5_000,
        mutation,
        ..Config::new(Quorums::new(n, f).expect("a legal size"), Domain::unnamed(1, seed))
    };
    let mut setup = Conditions { seed, ..Conditions::new(config) };
    setup.draw(&mut rng);
    let faulty = rng.random_range(0..=f);
    // The power of one more goes for good.
    let dies = (faulty < f && rng.random_ratio(1, 2)).then(|| rng.random_range(0..8u64));
    setup.corrupt(faulty, n, seed as u16, &mut rng);
    let mut world = World::<Rounds>::new(setup);
    for number in 0..rng.random_range(1..24) {
        world.request(rng.random_range(0..150_000), number);
    }
    for step in 0..rng.random_range(1..12u64) {
        if dies == Some(step) {
            let node = world.random(n as u64) as usize;
            if world.replica(node).is_some() {
                world.crash(node, 1 << 50);
                world.setup.silent.insert(Index(node as u16));
            }
        }
        world.disturb(n, step, &mut rng)?;
    }
    world.recovered()
}

/// `PHALANX_WORLDS` sets the number of worlds, `PHALANX_SEED` the first seed.
#[test]
fn random_worlds_agree_and_recover() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (from, worlds) = (number("PHALANX_SEED").unwrap_or(0), number("PHALANX_WORLDS").unwrap_or(300));
    let (mut decided, mut evidence) = (0, 0);
    for seed in from..from + worlds {
        let world = world(seed, None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        assert_eq!(world.unexecuted(), 0, "seed {seed}: not everything is executed\n{}", world.describe());
        decided += world.ledger.decided.len();
        evidence += world.ledger.evidence.len();
    }
    println!("{worlds} worlds from seed {from}: {decided} slots, {evidence} proofs of guilt");
    assert!(decided > 0 && (evidence > 0 || worlds < 100));
}

#[test]
fn broken_rules_are_noticed() {
    let rules = [Mutation::VoteBeforeDurable, Mutation::OrderVoteAfterNullify, Mutation::ForgetNullified];
    for mutation in rules {
        let found = (0..3_000).find(|seed| world(*seed, Some(mutation)).is_err());
        println!("{mutation:?}: {found:?}");
        assert!(found.is_some(), "{mutation:?} is not noticed");
    }
}

#[test]
fn a_replica_that_was_away_past_a_checkpoint_catches_up() {
    let quorums = Quorums::new(4, 1).expect("a legal size");
    let config = Config { interval: 4, timeout: 50_000, resend: 5_000, ..Config::new(quorums, Domain::unnamed(1, 0)) };
    let mut world = World::<Rounds>::new(Conditions { execute: 10, persist: 5, ..Conditions::new(config) });
    world.crash(3, 2_000_000);
    (0..40).for_each(|number| drop(world.request(number * 10_000, number)));
    world.run(1_500_000);
    assert!(world.height() == 0 && world.replica(0).is_some_and(|replica| replica.stable() >= 36));
    world.run(4_000_000);
    assert_eq!((world.ledger.violation.clone(), world.height(), world.unexecuted()), (None, 40, 0));
}

/// A host verifies what a message claims: no signature may be left out, also not those inside others.
#[test]
fn every_signature_in_a_message_is_claimed() {
    signatures::are_claimed(|seed| {
        world(seed, None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    });
}
