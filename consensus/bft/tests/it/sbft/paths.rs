//! From the fast path to the slow one and back: a replica is away for a while, or slow, or too slow.

use phalanx_bft::{
    Domain, Group, Impatience, Index, Micros, Quorums,
    sbft::{Config, FastWait, Mutation, Sbft},
};
use phalanx_world::{Conditions, Links, World};

/// Time between two requests.
const STEP: Micros = 200_000;
/// Patience that no fault here exceeds.
const LONG: Micros = 100_000_000;
/// The replica with the fault.
const FAULTY: Index = Index(3);

fn config(mutation: Option<Mutation>) -> Config {
    let quorums = Quorums::new(4, 1).expect("a legal size");
    Config {
        timeout: LONG,
        fast_wait: FastWait { least: 5_000, most: 100_000 },
        mutation,
        ..Config::new(quorums, Domain::unnamed(1, 0))
    }
}

/// A world whose faulty replica sends everything so much later.
fn world(config: Config, late: Micros, requests: u64) -> World<Sbft> {
    let far = [(usize::from(FAULTY.0), late)].into_iter().collect();
    let mut world =
        World::<Sbft>::new(Conditions { links: Links { far, ..Links::default() }, ..Conditions::new(config) });
    (0..requests).for_each(|number| drop(world.request(number * STEP, number)));
    world
}

/// True if a replica had the slot decided on the fast path.
fn is_fast(world: &World<Sbft>, slot: u64) -> bool {
    let by = |node: usize| world.replica(node).and_then(|replica| replica.decided_by(slot));
    (0..4).filter_map(by).any(|group| group != Group::Slow)
}

/// Slots that another replica than the faulty one collects for: it is never late for itself.
fn of_others(slots: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    let config = config(None);
    slots.filter(move |slot| config.collectors(*slot, 0).all(|index| index != FAULTY))
}

/// Away from slot 30 to slot 60, and 30 ms late before and after. Returns the share of fast slots in each phase.
fn away_and_back(timeout: Micros, mutation: Option<Mutation>) -> [f64; 3] {
    let mut world = world(Config { timeout, ..config(mutation) }, 30_000, 120);
    world.run(30 * STEP - STEP / 2);
    world.links.cut = [usize::from(FAULTY.0)].into_iter().collect();
    world.run(60 * STEP - STEP / 2);
    world.links.cut.clear();
    world.run(200 * STEP);
    assert_eq!((world.ledger.violation.clone(), world.unexecuted(), world.height()), (None, 0, 120));
    [10..31, 31..60, 90..121].map(|slots| {
        let slots: Vec<u64> = of_others(slots).collect();
        slots.iter().filter(|slot| is_fast(&world, **slot)).count() as f64 / slots.len() as f64
    })
}

#[test]
fn the_fast_path_comes_back_with_a_replica_whose_shares_follow_the_slow_decision() {
    assert_eq!(away_and_back(LONG, None), [1.0, 0.0, 1.0]);
    let deaf = away_and_back(LONG, Some(Mutation::LateSharesIgnored));
    assert_eq!(deaf, [1.0, 0.0, 0.0], "the test notices collectors that learn nothing after a decision");
}

/// Thirty times its patience with the primary: it complains, and is still in the view of all others when it is back.
#[test]
fn a_replica_that_was_cut_off_has_not_left_the_view() {
    assert_eq!(away_and_back(STEP, None), [1.0, 0.0, 1.0]);
    let left = away_and_back(STEP, Some(Mutation::Patience(Impatience::LeaveAlone)));
    assert_eq!(left, [1.0, 0.0, 0.0], "the test notices a replica that leaves alone");
}

/// A replica beyond the longest wait costs the shortest one, in every slot: pre-prepare, share, wait, prepare, commit, proof.
#[test]
fn a_replica_that_is_too_slow_does_not_make_collectors_wait() {
    let mut world = world(config(None), 100_001, 100);
    world.run(200 * STEP);
    assert_eq!((world.ledger.violation.clone(), world.unexecuted()), (None, 0));
    for slot in of_others(20..101) {
        assert!(!is_fast(&world, slot), "slot {slot}");
        let (_, last, replicas) = world.ledger.times[&slot];
        assert_eq!((last - (slot - 1) * STEP, replicas), (5_000 + 5_000, 4), "slot {slot}");
    }
}

/// Longest time that a correct replica gives the fast path once one collector of six has been silent for 60 slots. The replica
/// behind it waits for its turn in half of its slots, and shares of all others come together.
fn wait_behind_a_silent_collector(mutation: Option<Mutation>) -> Micros {
    let quorums = Quorums::new(6, 1).expect("a legal size");
    let config = Config { quorums, stagger: 20_000, resend: LONG, ..config(mutation) };
    let silent = [FAULTY].into_iter().collect();
    let mut world = World::<Sbft>::new(Conditions { silent, ..Conditions::new(config) });
    (0..60).for_each(|number| drop(world.request(number * STEP, number)));
    world.run(100 * STEP);
    assert_eq!((world.ledger.violation.clone(), world.unexecuted()), (None, 0));
    let waits = (1..6).filter(|node| *node != usize::from(FAULTY.0)).filter_map(|node| world.replica(node));
    waits.map(Sbft::fast_wait).max().expect("correct backups")
}

#[test]
fn a_later_collector_does_not_take_its_turn_for_a_delay() {
    assert_eq!(wait_behind_a_silent_collector(None), 5_000);
    let taken = wait_behind_a_silent_collector(Some(Mutation::TurnIsDelay));
    assert_eq!(taken, 25_000, "the test notices a turn that counts");
}
