//! Crashes at every record, and journals.

use phalanx_bft::{
    Base, Domain, Index, Protocol as _, Quorums,
    rounds::{Config, Rounds},
};
use phalanx_world::{Conditions, World};
use std::sync::Arc;

const PERSIST: u64 = 60;

fn config(interval: u64) -> Config {
    let quorums = Quorums::new(4, 1).expect("a legal size");
    Config { interval, timeout: 20_000, resend: 5_000, ..Config::new(quorums, Domain::unnamed(1, 0)) }
}

fn world(interval: u64) -> World<Rounds> {
    let conditions = Conditions { persist: PERSIST, execute: 200, ..Conditions::new(config(interval)) };
    let mut world = World::new(conditions);
    (0..6).for_each(|number| drop(world.request(500 + number * 300, number)));
    world
}

/// Power goes within every write and between any two: alone, with another one, with all.
#[test]
fn every_record_can_be_the_last() {
    let (mut crashes, end) = (0, 14_000);
    for at in (PERSIST / 2..end).step_by(PERSIST as usize / 2) {
        for victims in [vec![1], vec![2, 3], vec![0, 1, 2, 3]] {
            let mut world = world(2);
            world.run(at);
            let before = world.height();
            victims.iter().for_each(|node| world.crash(*node, 3_000));
            world.run(2_000_000);
            assert_eq!(world.ledger.violation, None, "at {at}, {victims:?}");
            assert_eq!(world.unexecuted(), 0, "at {at}, {victims:?}\n{}", world.describe());
            crashes += if before < world.height() { victims.len() } else { 0 };
        }
    }
    assert!(crashes > 1_000, "{crashes} crashes while something is under way");
}

/// The journal restores a replica with the same journal, and the same decisions.
#[test]
fn a_journal_restores_the_replica() {
    for end in (1_000..12_000).step_by(250) {
        let mut world = world(4);
        world.run(end);
        for node in 0..4 {
            let replica = world.replica(node).expect("up");
            let journal = replica.journal();
            let mut out = Vec::new();
            let again = Rounds::open(Index(node as u16), Arc::new(config(4)), Base::default(), &journal, &mut out);
            assert_eq!(again.journal(), journal, "at {end}");
            assert_eq!((again.decided(), again.stable()), (replica.decided(), replica.stable()), "at {end}");
        }
    }
}
