//! Replicas that sign two statements which contradict each other are named, each by a proof that convicts on its own.

use super::{
    attacks::{ballots, car, config, leader_of, prepare, world},
    world::World,
};
use alloy_primitives::B256;
use phalanx_bft::{
    Index, Signed,
    autobahn::{Ack, Checkpoint, Complaint, Config, Mark, Msg, PrepVote, Spread, Timeout},
    lanes::{Certificate, Cut, Tip, cut_digest},
};

/// Replicas that have evidence against one.
fn accusers(world: &World, against: usize) -> Vec<usize> {
    assert_eq!(world.ledger.violation, None);
    world.ledger.evidence.iter().filter(|(_, liar)| *liar == against).map(|(node, _)| *node).collect()
}

fn cuts() -> [Cut; 2] {
    let mut other = vec![Tip::default(); 4];
    other[0] = Tip { position: 1, digest: B256::repeat_byte(1) };
    [vec![Tip::default(); 4], other]
}

/// Cuts that every replica votes for: lane 3 has a certified car, or is empty.
fn two_good_cuts(world: &World, proposer: usize) -> [Cut; 2] {
    let lone = car(world, proposer, Tip::default(), 1, &[]);
    let mut grown = vec![Tip::default(); 4];
    grown[proposer] = lone.tip();
    [vec![Tip::default(); 4], grown]
}

#[test]
fn two_proposals_to_one_replica_convict_the_leader_at_once() {
    let leader = leader_of(&config(), 1);
    let mut world = world(config(), leader);
    let other = (leader + 1) % 4;
    let [a, b] = cuts();
    world.tell(leader, other, prepare(&world, leader, 1, a));
    assert_eq!(accusers(&world, leader), []);
    world.tell(leader, other, prepare(&world, leader, 1, b));
    assert_eq!(accusers(&world, leader), [other]);
}

/// Complaints carry the leader's own votes: replicas that were shown different cuts find out together.
#[test]
fn two_proposals_to_different_replicas_convict_the_leader_after_the_view() {
    let leader = leader_of(&config(), 1);
    let mut world = world(config(), leader);
    let others: Vec<usize> = (0..4).filter(|node| *node != leader).collect();
    let [a, b] = two_good_cuts(&world, leader);
    let lone = Msg::Car(car(&world, leader, Tip::default(), 1, &[]));
    for node in &others {
        world.tell(leader, *node, lone.clone());
    }
    for (node, cut) in others.iter().zip([&a, &b, &b]) {
        assert!(world.tell(leader, *node, prepare(&world, leader, 1, cut.clone())));
    }
    assert_eq!(accusers(&world, leader), []);
    world.run(1_000_000);
    assert_eq!(accusers(&world, leader), others, "{}", world.describe());
    assert!(others.iter().all(|node| world.replica(*node).done() >= 1), "{}", world.describe());
}

/// A decision that carries the leader's vote convicts a leader that showed another cut to one replica.
#[test]
fn a_decision_convicts_the_leader_that_showed_another_cut() {
    let leader = leader_of(&config(), 1);
    let mut world = world(config(), leader);
    let other = (leader + 1) % 4;
    let [a, b] = two_good_cuts(&world, leader);
    world.tell(leader, other, Msg::Car(car(&world, leader, Tip::default(), 1, &[])));
    world.tell(leader, other, prepare(&world, leader, 1, a));
    let body = PrepVote { slot: 1, view: 0, digest: cut_digest(&b) };
    let voters = (0..4).filter(|node| *node != other).map(|node| {
        let Signed { signer, signature, .. } = world.signed(node, body);
        phalanx_bft::lanes::Ballot { signer, signature }
    });
    let qc = phalanx_bft::autobahn::Qc {
        slot: 1,
        view: 0,
        digest: body.digest,
        phase: phalanx_bft::autobahn::Phase::Prepare,
        ballots: voters.collect(),
    };
    world.tell(leader, other, Msg::Confirm(qc));
    assert_eq!(accusers(&world, leader), [other]);
}

#[test]
fn two_cars_at_one_position_convict_the_owner() {
    let mut world = world(config(), 3);
    let (a, b) = (car(&world, 3, Tip::default(), 1, &[]), car(&world, 3, Tip::default(), 2, &[]));
    world.tell(3, 0, Msg::Car(a.clone()));
    world.tell(3, 1, Msg::Car(b.clone()));
    assert_eq!(accusers(&world, 3), []);
    world.tell(3, 0, Msg::Car(b));
    assert_eq!(accusers(&world, 3), [0]);
    world.tell(3, 1, Msg::Car(a));
    assert_eq!(accusers(&world, 3), [0, 1]);
}

/// A fork whose branches went to different replicas comes out when a cut orders one of them.
#[test]
fn a_fork_convicts_the_owner_when_a_branch_is_ordered() {
    let mut world = world(config(), 3);
    let (a, b) = (car(&world, 3, Tip::default(), 1, &[]), car(&world, 3, Tip::default(), 2, &[]));
    world.tell(3, 0, Msg::Car(a));
    world.tell(3, 1, Msg::Car(b.clone()));
    let ballots = ballots(&world, Index(3), b.tip(), &[1, 3]);
    for node in 0..3 {
        let certificate = Certificate { lane: Index(3), tip: b.tip(), ballots: ballots.clone() };
        world.tell(3, node, Msg::Certificate(certificate));
    }
    world.request(0, 1, 7);
    world.run(2_000_000);
    assert!(accusers(&world, 3).contains(&0), "{}", world.describe());
    assert!((0..3).all(|node| world.replica(node).lanes().committed(Index(3)) == b.tip()), "{}", world.describe());
}

/// A replica that votes for two branches of a lane is convicted by the certificates that its votes are in.
#[test]
fn votes_for_two_branches_convict_the_voter() {
    let mut world = world(config(), 3);
    let tip = |of| Tip { position: 1, digest: B256::repeat_byte(of) };
    let certificate = |of, voters: &[usize]| {
        let ballots = ballots(&world, Index(2), tip(of), voters);
        Msg::Certificate(Certificate { lane: Index(2), tip: tip(of), ballots })
    };
    let (first, second) = (certificate(1, &[1, 3]), certificate(2, &[0, 3]));
    world.tell(3, 0, first);
    // Only a certificate that may be of use is verified: one that comes with another message is compared all the same.
    let Msg::Certificate(second) = second else { unreachable!() };
    let status = phalanx_bft::autobahn::Status { done: 0, stable: 0, tips: vec![second] };
    world.tell(3, 0, Msg::Status(status));
    assert_eq!(accusers(&world, 3), [0]);
}

/// Votes and order votes for two cuts, and complaints that hide them.
#[test]
fn double_votes_and_complaints_that_hide_votes_convict() {
    let [a, b] = cuts().map(|cut| cut_digest(&cut));
    let leader = leader_of(&config(), 1);
    let liar = (leader + 1) % 4;
    let config = Config { spread: Spread::AllToAll, ..config() };
    let vote = |world: &World, digest| Msg::Vote(world.signed(liar, PrepVote { slot: 1, view: 0, digest }));
    let ack = |world: &World, digest| Msg::Ack(world.signed(liar, Ack { slot: 1, view: 0, digest }));
    let complaint = |world: &World, view| {
        let body = Timeout { slot: 1, view, qc: Mark::default(), prop: Mark::default() };
        let timeout = world.signed(liar, body);
        Msg::Timeout(Complaint { timeout, qc: Vec::new(), cut: Cut::new(), lead: Vec::new() })
    };
    let base = world(config.clone(), liar);
    let lies: [(&str, [Msg; 2]); 5] = [
        ("votes", [vote(&base, a), vote(&base, b)]),
        ("order votes", [ack(&base, a), ack(&base, b)]),
        ("a hidden vote", [vote(&base, a), complaint(&base, 0)]),
        ("a vote after a complaint", [complaint(&base, 0), vote(&base, a)]),
        ("a hidden order vote", [ack(&base, a), complaint(&base, 2)]),
    ];
    for (name, [first, second]) in lies {
        let mut world = world(config.clone(), liar);
        assert!(world.tell(liar, leader, first.clone()), "{name}");
        world.tell(liar, leader, first);
        assert_eq!(accusers(&world, liar), [], "{name}: the same again is no lie");
        assert!(world.tell(liar, leader, second.clone()), "{name}");
        assert_eq!(accusers(&world, liar), [leader], "{name}");
        world.tell(liar, leader, second);
        assert_eq!(accusers(&world, liar), [leader], "{name}: named once");
    }
}

#[test]
fn two_checkpoints_of_a_slot_convict() {
    let mut world = world(Config { interval: 8, ..config() }, 3);
    let checkpoint = |world: &World, height| {
        let frontier = vec![Tip::default(); 4];
        Msg::Checkpoint(world.signed(3, Checkpoint { slot: 8, height, digest: B256::repeat_byte(1), frontier }))
    };
    for height in [1, 1, 2, 3] {
        world.tell(3, 0, checkpoint(&world, height));
        assert_eq!(accusers(&world, 3).len(), usize::from(height > 1));
    }
}
