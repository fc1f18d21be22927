//! Random worlds with every fault at once: loss, jitter, cuts, crashes, silence and lies. Never two decisions of a slot; alive
//! again once the network is.

use phalanx_bft::{
    Domain, Quorums,
    pbft::{Config, Mutation, Pbft},
};
use phalanx_world::{Conditions, World, signatures};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

fn world(seed: u64, mutation: Option<Mutation>) -> Result<World<Pbft>, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    let n = *[4, 4, 4, 5, 7, 8].get(rng.random_range(0..6)).expect("six choices");
    let f = if n == 8 { 2 } else { (n - 1) / 3 };
    let quorums = Quorums::new(n, f).expect("a legal size");
    let config = Config {
        interval: *[2, 4, 16].get(rng.random_range(0..3)).expect("three choices"),
        timeout: 20_000,
        resend: 5_000,
        mutation,
        ..Config::new(quorums, Domain::unnamed(1, seed))
    };
    let mut setup = Conditions { seed, ..Conditions::new(config) };
    setup.draw(&mut rng);
    let faulty = rng.random_range(0..=f);
    setup.corrupt(faulty, n, seed as u16, &mut rng);
    let mut world = World::<Pbft>::new(setup);
    let requests = rng.random_range(1..24);
    for number in 0..requests {
        world.request(rng.random_range(0..150_000), number);
    }
    for step in 0..rng.random_range(1..12u64) {
        world.disturb(n, step, &mut rng)?;
    }
    world.recovered()
}

#[test]
fn worlds_agree_and_recover() {
    let worlds: u64 = std::env::var("PHALANX_WORLDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000);
    let (mut decided, mut views) = (0, 0);
    for seed in 0..worlds {
        let world = world(seed, None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        assert_eq!(world.unexecuted(), 0, "seed {seed}: not everything is executed\n{}", world.describe());
        decided += world.ledger.decided.len();
        views += (0..4).filter_map(|node| world.replica(node)).map(phalanx_bft::Protocol::view).max().unwrap_or(0);
    }
    println!("{worlds} worlds, {decided} slots, {views} view changes");
    assert!(views > worlds / 2, "the faults bring few view changes: {views}");
}

#[test]
fn an_order_vote_that_is_not_durable_first_is_noticed() {
    let found = (0..200).find(|seed| world(*seed, Some(Mutation::VoteBeforeDurable)).is_err());
    assert!(found.is_some());
}

#[test]
fn a_replica_that_was_away_past_a_checkpoint_catches_up() {
    let config = Config {
        interval: 4,
        timeout: 50_000,
        resend: 5_000,
        ..Config::new(Quorums::new(4, 1).unwrap(), Domain::default())
    };
    let mut world = World::<Pbft>::new(Conditions { execute: 10, persist: 5, ..Conditions::new(config) });
    world.crash(3, 2_000_000);
    (0..40).for_each(|number| drop(world.request(number * 10_000, number)));
    world.run(1_500_000);
    assert!(world.height() == 0 && world.replica(0).unwrap().stable().slot >= 36);
    world.run(4_000_000);
    assert_eq!((world.height(), world.unexecuted()), (40, 0));
    assert_eq!(world.ledger.violation, None);
}

/// A host verifies what a message claims: no signature may be left out, also not those inside others.
#[test]
fn every_signature_in_a_message_is_claimed() {
    signatures::are_claimed(|seed| {
        world(seed, None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    });
}
