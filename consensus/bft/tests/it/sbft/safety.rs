//! Random worlds with every fault at once: loss, jitter, cuts, crashes, silence and lies. Never two decisions of a slot; alive
//! again once the network is.

use phalanx_bft::{
    Domain, Protocol as _, Quorums,
    sbft::{Config, FastWait, Mutation, Paths, Sbft},
};
use phalanx_world::{Conditions, World, signatures};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

fn world(seed: u64, mutation: Option<Mutation>) -> Result<World<Sbft>, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5bf7);
    let (n, f) = [(4, 1), (4, 1), (6, 1), (6, 1), (7, 2), (8, 1), (9, 2)][rng.random_range(0..7)];
    let quorums = Quorums::new(n, f).expect("a legal size");
    let config = Config {
        interval: [2, 4, 16][rng.random_range(0..3)],
        timeout: 20_000,
        resend: 5_000,
        help: 3_000,
        stagger: 500,
        fast_wait: FastWait { least: 100, most: 3_000 },
        all_wait: rng.random_ratio(1, 3).then_some(1_000),
        paths: if rng.random_ratio(1, 5) { Paths::Linear } else { Paths::Dual },
        active: rng.random_ratio(1, 2).then_some(64),
        mutation,
        ..Config::new(quorums, Domain::unnamed(1, seed))
    };
    let mut setup = Conditions { seed, ..Conditions::new(config) };
    setup.draw(&mut rng);
    let faulty = rng.random_range(0..=f);
    setup.corrupt(faulty, n, seed as u16 % 7, &mut rng);
    let mut world = World::new(setup);
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
fn random_worlds_agree_and_recover() {
    let worlds: u64 = std::env::var("PHALANX_WORLDS").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
    let first: u64 = std::env::var("PHALANX_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let (mut decided, mut views, mut answers, mut evidence) = (0, 0, 0, 0);
    for seed in first..first + worlds {
        let world = world(seed, None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        assert_eq!(world.unexecuted(), 0, "seed {seed}: not everything is executed\n{}", world.describe());
        decided += world.ledger.decided.len();
        answers += world.ledger.answers.len();
        evidence += world.ledger.evidence.len();
        views += (0..4).filter_map(|node| world.replica(node)).map(|replica| replica.view()).max().unwrap_or(0);
    }
    println!("{worlds} worlds, {decided} slots, {answers} certified, {views} view changes, {evidence} proofs of guilt");
    assert!(views > worlds / 2, "the faults bring few view changes: {views}");
    assert!(answers > decided / 2 && (evidence > 0 || worlds < 1_000));
}

#[test]
fn broken_rules_are_noticed() {
    for mutation in [Mutation::ShareBeforeDurable, Mutation::StableByState, Mutation::StableUnproven] {
        let found = (0..3_000).find(|seed| world(*seed, Some(mutation)).is_err());
        println!("{mutation:?}: {found:?}");
        assert!(found.is_some(), "{mutation:?} is not noticed");
    }
}

/// A host verifies what a message claims: no signature may be left out, also not those inside others.
#[test]
fn every_signature_in_a_message_is_claimed() {
    signatures::are_claimed(|seed| {
        world(seed, None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    });
}
