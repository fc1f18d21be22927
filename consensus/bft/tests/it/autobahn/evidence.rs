//! Replicas that sign two statements which contradict each other are named, each by a proof that convicts on its own.

use super::{
    World,
    attacks::{ballots, car, config, leader_of, prepare, world},
    signed,
};
use alloy_primitives::B256;
use phalanx_bft::{
    Index, Signed,
    autobahn::{Ack, Checkpoint, Complaint, Config, Mark, Msg, PrepVote, Spread, Timeout},
    lanes::{Certificate, Cut, Tip, cut_digest},
};
use std::collections::BTreeSet;

/// Replicas that have evidence against one.
fn accusers(world: &World, against: usize) -> Vec<usize> {
    assert_eq!(world.ledger.violation, None);
    let against_it = world.ledger.evidence.iter().filter(|(_, liar)| usize::from(liar.0) == against);
    against_it.map(|(node, _)| usize::from(node.0)).collect::<BTreeSet<usize>>().into_iter().collect()
}

fn cuts() -> [Cut; 2] {
    let mut other = vec![Tip::default(); 4];
    other[0] = Tip { position: 1, digest: B256::repeat_byte(1) };
    [vec![Tip::default(); 4], other]
}

/// Cuts that every replica votes for: lane 3 has a certified car, or is empty.
fn two_good_cuts(proposer: usize) -> [Cut; 2] {
    let lone = car(proposer, Tip::default(), 1, &[]);
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
    world.deliver(leader, other, prepare(leader, 1, a));
    assert_eq!(accusers(&world, leader), []);
    world.deliver(leader, other, prepare(leader, 1, b));
    assert_eq!(accusers(&world, leader), [other]);
}

/// Complaints carry the leader's own votes: replicas that were shown different cuts find out together.
#[test]
fn two_proposals_to_different_replicas_convict_the_leader_after_the_view() {
    let leader = leader_of(&config(), 1);
    let mut world = world(config(), leader);
    let others: Vec<usize> = (0..4).filter(|node| *node != leader).collect();
    let [a, b] = two_good_cuts(leader);
    let lone = Msg::Car(car(leader, Tip::default(), 1, &[]));
    for node in &others {
        world.deliver(leader, *node, lone.clone());
    }
    for (node, cut) in others.iter().zip([&a, &b, &b]) {
        assert!(world.deliver(leader, *node, prepare(leader, 1, cut.clone())));
    }
    assert_eq!(accusers(&world, leader), []);
    world.run(1_000_000);
    assert_eq!(accusers(&world, leader), others, "{}", world.describe());
    assert!(others.iter().all(|node| world.up(*node).done() >= 1), "{}", world.describe());
}

/// A decision that carries the leader's vote convicts a leader that showed another cut to one replica.
#[test]
fn a_decision_convicts_the_leader_that_showed_another_cut() {
    let leader = leader_of(&config(), 1);
    let mut world = world(config(), leader);
    let other = (leader + 1) % 4;
    let [a, b] = two_good_cuts(leader);
    world.deliver(leader, other, Msg::Car(car(leader, Tip::default(), 1, &[])));
    world.deliver(leader, other, prepare(leader, 1, a));
    let body = PrepVote { slot: 1, view: 0, digest: cut_digest(&b) };
    let voters = (0..4).filter(|node| *node != other).map(|node| {
        let Signed { signer, signature, .. } = signed(node, body);
        phalanx_bft::lanes::Ballot { signer, signature }
    });
    let qc = phalanx_bft::autobahn::Qc {
        slot: 1,
        view: 0,
        digest: body.digest,
        phase: phalanx_bft::autobahn::Phase::Prepare,
        ballots: voters.collect(),
    };
    world.deliver(leader, other, Msg::Confirm(qc));
    assert_eq!(accusers(&world, leader), [other]);
}

#[test]
fn two_cars_at_one_position_convict_the_owner() {
    let mut world = world(config(), 3);
    let (a, b) = (car(3, Tip::default(), 1, &[]), car(3, Tip::default(), 2, &[]));
    world.deliver(3, 0, Msg::Car(a.clone()));
    world.deliver(3, 1, Msg::Car(b.clone()));
    assert_eq!(accusers(&world, 3), []);
    world.deliver(3, 0, Msg::Car(b));
    assert_eq!(accusers(&world, 3), [0]);
    world.deliver(3, 1, Msg::Car(a));
    assert_eq!(accusers(&world, 3), [0, 1]);
}

/// A fork whose branches went to different replicas comes out when a cut orders one of them.
#[test]
fn a_fork_convicts_the_owner_when_a_branch_is_ordered() {
    let mut world = world(config(), 3);
    let (a, b) = (car(3, Tip::default(), 1, &[]), car(3, Tip::default(), 2, &[]));
    world.deliver(3, 0, Msg::Car(a));
    world.deliver(3, 1, Msg::Car(b.clone()));
    let ballots = ballots(Index(3), b.tip(), &[1, 3]);
    for node in 0..3 {
        let certificate = Certificate { lane: Index(3), tip: b.tip(), ballots: ballots.clone() };
        world.deliver(3, node, Msg::Certificate(certificate));
    }
    world.request_at(0, 7, vec![1]);
    world.run(2_000_000);
    assert!(accusers(&world, 3).contains(&0), "{}", world.describe());
    assert!((0..3).all(|node| world.up(node).lanes().committed(Index(3)) == b.tip()), "{}", world.describe());
}

/// A replica that votes for two branches of a lane is convicted by the certificates that its votes are in.
#[test]
fn votes_for_two_branches_convict_the_voter() {
    let mut world = world(config(), 3);
    let tip = |of| Tip { position: 1, digest: B256::repeat_byte(of) };
    let certificate = |of, voters: &[usize]| {
        let ballots = ballots(Index(2), tip(of), voters);
        Msg::Certificate(Certificate { lane: Index(2), tip: tip(of), ballots })
    };
    let (first, second) = (certificate(1, &[1, 3]), certificate(2, &[0, 3]));
    world.deliver(3, 0, first);
    // Only a certificate that may be of use is verified: one that comes with another message is compared all the same.
    let Msg::Certificate(second) = second else { unreachable!() };
    let status = phalanx_bft::autobahn::Status { done: 0, stable: 0, tips: vec![second] };
    world.deliver(3, 0, Msg::Status(status));
    assert_eq!(accusers(&world, 3), [0]);
}

/// Votes and order votes for two cuts, and complaints that hide them.
#[test]
fn double_votes_and_complaints_that_hide_votes_convict() {
    let [a, b] = cuts().map(|cut| cut_digest(&cut));
    let leader = leader_of(&config(), 1);
    let liar = (leader + 1) % 4;
    let config = Config { spread: Spread::AllToAll, ..config() };
    let vote = |digest| Msg::Vote(signed(liar, PrepVote { slot: 1, view: 0, digest }));
    let ack = |digest| Msg::Ack(signed(liar, Ack { slot: 1, view: 0, digest }));
    let complaint = |view| {
        let body = Timeout { slot: 1, view, qc: Mark::default(), prop: Mark::default() };
        let timeout = signed(liar, body);
        Msg::Timeout(Complaint { timeout, qc: Vec::new(), cut: Cut::new(), lead: Vec::new() })
    };
    let lies: [(&str, [Msg; 2]); 5] = [
        ("votes", [vote(a), vote(b)]),
        ("order votes", [ack(a), ack(b)]),
        ("a hidden vote", [vote(a), complaint(0)]),
        ("a vote after a complaint", [complaint(0), vote(a)]),
        ("a hidden order vote", [ack(a), complaint(2)]),
    ];
    for (name, [first, second]) in lies {
        let mut world = world(config.clone(), liar);
        assert!(world.deliver(liar, leader, first.clone()), "{name}");
        world.deliver(liar, leader, first);
        assert_eq!(accusers(&world, liar), [], "{name}: the same again is no lie");
        assert!(world.deliver(liar, leader, second.clone()), "{name}");
        assert_eq!(accusers(&world, liar), [leader], "{name}");
        world.deliver(liar, leader, second);
        assert_eq!(accusers(&world, liar), [leader], "{name}: named once");
    }
}

#[test]
fn two_checkpoints_of_a_slot_convict() {
    let mut world = world(Config { interval: 8, ..config() }, 3);
    let checkpoint = |height| {
        let frontier = vec![Tip::default(); 4];
        Msg::Checkpoint(signed(3, Checkpoint { slot: 8, height, digest: B256::repeat_byte(1), frontier }))
    };
    for height in [1, 1, 2, 3] {
        world.deliver(3, 0, checkpoint(height));
        assert_eq!(accusers(&world, 3).len(), usize::from(height > 1));
    }
}
