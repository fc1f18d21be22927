//! Random worlds: crashes, cuts, loss and traitors, then calm. All correct replicas order the same blocks, every batch of a correct
//! replica is among them, and every certified car of its lane.

use super::World;
use phalanx_bft::{
    Domain, Index, Quorums,
    autobahn::{Config, Mutation, Spread, Tips},
};
use phalanx_world::{Conditions, Links, kind, signatures};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Runs a world of a seed. Returns it after the calm.
fn world(seed: u64, mutation: Option<Mutation>) -> World {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let n = [4, 4, 4, 5, 6, 7][rng.random_range(0..6)];
    let f = (n - 1) / 3;
    let base = Config::new(Quorums::new(n, f).expect("a legal size"), Domain::default());
    let config = Config {
        tips: [Tips::Certified, Tips::Own, Tips::Optimistic][rng.random_range(0..3)],
        spread: [Spread::Linear, Spread::AllToAll][rng.random_range(0..2)],
        fast: [None, Some(0), Some(4_000)][rng.random_range(0..3)],
        parallel: rng.random_range(1..5),
        timeout: 20_000,
        coverage: rng.random_range(1..=n - f),
        cover_wait: rng.random_range(0..3_000),
        tip_wait: 1_000,
        interval: rng.random_range(5..20),
        resend: 10_000,
        block_bytes: [64, 200, 4_000][rng.random_range(0..3)],
        sync_bytes: [64, 300, 100_000][rng.random_range(0..3)],
        ahead: rng.random_range(2..20),
        mutation,
        ..base
    };
    let mut traitors = std::collections::BTreeSet::new();
    while traitors.len() < rng.random_range(0..=f) {
        traitors.insert(Index(rng.random_range(0..n) as u16));
    }
    let setup = Conditions {
        seed,
        links: Links {
            jitter: rng.random_range(0..5_000),
            lost: [0, 30, 200][rng.random_range(0..3)],
            doubled: rng.random_range(0..100),
            ..Links::default()
        },
        persist: [0, 300][rng.random_range(0..2)],
        execute: rng.random_range(0..2_000),
        traitors,
        ..Conditions::new(config)
    };
    let mut world = World::new(setup);
    for number in 0..60 {
        world.request_at(rng.random_range(0..300_000), number, vec![number as usize % n]);
    }
    for _ in 0..rng.random_range(0..6) {
        world.run(world.now() + rng.random_range(0..60_000));
        match rng.random_range(0..3) {
            0 => world.crash(rng.random_range(0..n), rng.random_range(0..80_000)),
            1 => world.links.cut = (0..n).filter(|_| rng.random()).collect(),
            _ => world.links.cut.clear(),
        }
    }
    world.run(400_000);
    world.heal();
    for _ in 0..40 {
        world.run(world.now() + 500_000);
        if is_calm(&world) {
            break;
        }
    }
    world
}

/// Returns true if nothing of a correct lane waits any longer.
fn is_calm(world: &World) -> bool {
    let correct: Vec<usize> = world.correct().collect();
    let heights: Vec<u64> = correct.iter().map(|node| world.executed_slot(*node)).collect();
    heights.iter().all(|height| *height == heights[0])
        && correct.iter().all(|node| {
            world.replica(*node).is_some()
                && world.waiting(*node) == 0
                && correct.iter().all(|lane| {
                    let (lanes, lane) = (world.up(*node).lanes(), Index(*lane as u16));
                    lanes.committed(lane).position == world.up(usize::from(lane.0)).lanes().newest(lane).position
                })
        })
}

/// Runs a world and checks it. Returns its height, its highest view, and the numbers of traitors and of convicted ones.
fn check(seed: u64) -> (u64, u64, usize, usize) {
    let world = world(seed, None);
    assert_eq!(world.ledger.violation, None, "seed {seed}: {}", world.describe());
    assert!(is_calm(&world), "seed {seed}: {:?}\n{}", world.setup, world.describe());
    let correct: Vec<usize> = world.correct().collect();
    for node in &correct {
        let done = world.transactions(*node);
        let n = world.setup.config.quorums.n();
        let lost: Vec<u64> = (0..60u64)
            .filter(|number| correct.contains(&(*number as usize % n)))
            .filter(|number| !done.contains(&number.to_be_bytes()[..]))
            .collect();
        // A crash may take a batch with it that its client had given to this replica alone, before the car was durable.
        assert!(lost.len() <= 6, "seed {seed}: {node} lacks {lost:?}");
        for (_, of, lane, position) in
            world.ledger.votes.keys().filter(|(owner, ..)| world.is_correct(usize::from(owner.0)))
        {
            let committed = world.up(*node).lanes().committed(Index(*lane as u16)).position;
            let kept = *of != kind::CERTIFIED || committed >= *position;
            assert!(kept, "seed {seed}: {node} has not committed car {position} of lane {lane}");
        }
    }
    let found = world.ledger.evidence.iter().filter(|(node, _)| world.is_correct(usize::from(node.0)));
    let convicted: std::collections::BTreeSet<Index> = found.map(|(_, liar)| *liar).collect();
    let complaints = world.ledger.votes.keys().filter(|(_, of, ..)| *of == kind::COMPLAINT);
    let top_view = complaints.map(|(_, _, view, _)| view + 1).max().unwrap_or(0);
    (world.executed_slot(correct[0]), top_view, world.setup.traitors.len(), convicted.len())
}

/// `PHALANX_SEEDS` sets the number of worlds, `PHALANX_SEED` the first seed.
#[test]
fn random_worlds_agree_and_lose_no_certified_car() {
    let from: u64 = std::env::var("PHALANX_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let count: u64 = std::env::var("PHALANX_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let (mut blocks, mut views, mut liars, mut convicted) = (0, 0, 0, 0);
    for seed in from..from + count {
        let (height, view, traitors, caught) = check(seed);
        blocks += height;
        views += u64::from(view > 0);
        (liars, convicted) = (liars + traitors, convicted + caught);
    }
    println!(
        "{count} worlds from seed {from}: {blocks} blocks, {views} worlds with view changes, \
         evidence against {convicted} of {liars} traitors"
    );
    assert!(blocks > 0 && views > 0 && convicted > 0);
}

/// Lanes in another order per replica are noticed at once.
#[test]
fn an_order_that_depends_on_the_replica_is_caught() {
    let broken = (1..40).any(|seed| world(seed, Some(Mutation::OwnLaneFirst)).ledger.violation.is_some());
    assert!(broken);
}

/// A host verifies what a message claims: no signature may be left out, also not those inside others.
#[test]
fn every_signature_in_a_message_is_claimed() {
    signatures::are_claimed(|seed| {
        world(seed, None);
    });
}
