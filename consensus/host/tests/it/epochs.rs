//! Changes of members: the epoch ends at one block for all, whatever is killed inside which step, and the next one begins above it.

use crate::cluster::{DOMAIN, Net, Setup};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_bft::{
    Batch, Domain, Index, Protocol as _, Quorums, Signed, Statement as _,
    autobahn::Autobahn,
    pbft::{Msg, Pbft, PrePrepare},
    sbft::Sbft,
};
use phalanx_host::{Change, ChangeError, Frame, SignedChange};
use phalanx_keys::{Scheme as _, Simulated};
use phalanx_world::Facts;

/// Never, in virtual time.
const FOR_GOOD: u64 = 3_600_000_000;

/// A change to an epoch that these members of the one before sign.
pub(crate) fn change(epoch: u64, signers: &[u16]) -> Bytes {
    let body = Change { epoch, network: B256::repeat_byte(epoch as u8) };
    let domain = Domain { epoch: epoch - 1, ..DOMAIN };
    let signed = signers.iter().map(|signer| {
        let signature = Simulated::new(Index(*signer), 64).sign(&body.signed_bytes(domain));
        Signed { signer: Index(*signer), signature, body }
    });
    SignedChange::new(signed.collect()).to_value()
}

fn world<P: Facts>(seed: u64, epochs: Vec<Vec<usize>>) -> Net<P> {
    let persist = seed % 3 * 150;
    let setup = Setup { interval: 4, persist, jitter: 500, timeout: 30_000, seed, epochs, ..Setup::new(4) };
    Net::new(Setup { compacts: seed.is_multiple_of(2), ..setup })
}

/// Hands a change to all members of the epoch that it ends.
fn submit<P: Facts>(cluster: &mut Net<P>, epoch: u64) {
    let members = cluster.setup.members(epoch - 1).len() as u16;
    let quorum = (members + (members - 1) / 3 + 1).div_ceil(2);
    // With the approvals of two quorums the change is two values, which may stand in neighbouring slots.
    for approvals in [0..quorum, members - quorum..members] {
        let value = change(epoch, &approvals.collect::<Vec<_>>());
        (0..cluster.machines()).for_each(|node| cluster.submit_tx(node, value.clone()));
    }
}

/// Runs until the members of an epoch that are not down for good are in it, have decided something there, and have one state.
fn settle<P: Facts>(cluster: &mut Net<P>, epoch: u64, dead: Option<usize>, what: &str) {
    let members: Vec<usize> = cluster.setup.members(epoch).into_iter().filter(|node| Some(*node) != dead).collect();
    let mut number = 1_000_000 * (epoch + 1);
    for round in 0..800 {
        if round % 8 == 0 {
            (0..3).for_each(|at| cluster.submit(at * 500, number + at));
            number += 3;
            // A client that has no answer repeats the change, too.
            submit(cluster, epoch);
        }
        cluster.run(cluster.now() + 20_000);
        let begins = cluster.begins(epoch);
        let done = |node: &usize| {
            let is_there = cluster.epoch(*node) == epoch && begins.is_some_and(|begins| cluster.height(*node) > begins);
            is_there && cluster.root(*node) == cluster.root(members[0])
        };
        if members.iter().all(done) {
            let begins = begins.expect("it has begun");
            let voted = cluster.state_voted[&(epoch - 1)];
            assert!(voted <= begins, "{what}: a vote for {voted}, above the end of the epoch at {begins}");
            let offered = cluster.host(members[0]).certified(begins, &Bytes::new());
            assert!(offered.is_some_and(|block| block.slot == begins), "{what}: new members need its state");
            assert!(cluster.halted.is_empty() && cluster.accused.is_empty(), "{what}: {:?}", cluster.halted);
            return;
        }
    }
    panic!("{what}: epoch {epoch} does not begin\n{}", cluster.describe());
}

/// The leader is killed at every moment from before the change is ordered to after the next epoch has begun, for a while or for good.
fn leader_killed_inside_every_step<P: Facts>() {
    for (seed, at) in (0..).zip((0..24_000).step_by(800)) {
        for downtime in [60_000, FOR_GOOD] {
            // Node 4 takes the place of node 3; two of the members change their index.
            let mut cluster = world::<P>(seed, vec![vec![1, 0, 2, 4]]);
            (0..6).for_each(|number| cluster.submit(number * 1_000, number));
            cluster.run(9_000);
            submit(&mut cluster, 1);
            cluster.run(cluster.now() + at);
            let up = (0..3).find(|node| cluster.is_up(*node));
            let leader = up.and_then(|node| {
                let leader = cluster.host(node).protocol().map(|protocol| protocol.leader())?;
                Some(cluster.setup.members(cluster.epoch(node))[usize::from(leader.0)])
            });
            let victim = leader.unwrap_or(0);
            cluster.crash(victim, downtime);
            let dead = (downtime == FOR_GOOD).then_some(victim);
            settle(&mut cluster, 1, dead, &format!("seed {seed}, killed {victim} at {at} for {downtime}"));
        }
    }
}

#[test]
fn a_leader_killed_inside_every_step_with_views() {
    leader_killed_inside_every_step::<Pbft>();
}

#[test]
fn a_leader_killed_inside_every_step_with_collectors() {
    leader_killed_inside_every_step::<Sbft>();
}

#[test]
fn a_leader_killed_inside_every_step_with_lanes() {
    leader_killed_inside_every_step::<Autobahn>();
}

/// Power cuts of single nodes and of all, and cuts of links, over three epochs that replace, add and remove members. `PHALANX_EPOCHS` sets the
/// number of worlds, `PHALANX_SEED` the first seed.
fn faults_over_epochs<P: Facts>() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (worlds, first) = (number("PHALANX_EPOCHS").unwrap_or(40), number("PHALANX_SEED").unwrap_or(0));
    for seed in first..first + worlds {
        let epochs = vec![vec![0, 1, 2, 4], vec![0, 1, 2, 4, 5, 6, 7], vec![7, 4, 1, 0]];
        let mut cluster = world::<P>(seed, epochs);
        let last = cluster.setup.epochs.len() as u64;
        for epoch in 1..=last {
            (0..4).for_each(|number| cluster.submit(number * 1_000, epoch * 100 + number));
            cluster.run(cluster.now() + 5_000);
            let value = change(epoch, if epoch == 3 { &[0, 1, 2, 3, 6] } else { &[0, 1, 3] });
            (0..cluster.machines()).for_each(|node| cluster.submit_tx(node, value.clone()));
            for _ in 0..6 {
                let members = cluster.setup.members(epoch - 1);
                let one = members[cluster.random(members.len() as u64) as usize];
                let downtime = 100 + cluster.random(40_000);
                match cluster.random(4) {
                    0 => {
                        let holds = cluster.random(2) == 0;
                        cluster.separate([one].into(), holds);
                    }
                    1 => cluster.separate(Default::default(), false),
                    2 => members.iter().for_each(|node| cluster.crash(*node, 3_000)),
                    _ => cluster.crash(one, downtime),
                }
                let pause = cluster.random(6_000);
                cluster.run(cluster.now() + pause);
            }
            cluster.heal();
            let again = value.clone();
            (0..cluster.machines()).for_each(|node| cluster.submit_tx(node, again.clone()));
            settle(&mut cluster, epoch, None, &format!("seed {seed}"));
        }
        // Who is no member any longer finds that out, too.
        for _ in 0..200 {
            cluster.run(cluster.now() + 20_000);
            if [2, 3, 5, 6].iter().all(|node| !cluster.is_up(*node)) {
                break;
            }
        }
        assert!([2, 3, 5, 6].iter().all(|node| !cluster.is_up(*node)), "seed {seed}: who is no member is down");
    }
}

#[test]
fn epochs_go_on_under_faults_with_views() {
    faults_over_epochs::<Pbft>();
}

#[test]
fn epochs_go_on_under_faults_with_collectors() {
    faults_over_epochs::<Sbft>();
}

#[test]
fn epochs_go_on_under_faults_with_lanes() {
    faults_over_epochs::<Autobahn>();
}

/// A node that was away for two epochs goes through both.
#[test]
fn a_node_that_was_away_goes_through_every_epoch() {
    let mut cluster = world::<Pbft>(1, vec![vec![0, 1, 2, 3], vec![0, 1, 3, 4]]);
    cluster.run(1_000);
    cluster.crash(3, 4_000_000);
    for epoch in [1, 2] {
        submit(&mut cluster, epoch);
        settle(&mut cluster, epoch, Some(3), "without node 3");
    }
    assert!(cluster.now() < 4_000_000, "node 3 is away all the time");
    cluster.run(4_100_000);
    settle(&mut cluster, 2, None, "with node 3");
}

/// A change that a quorum of the present members has not signed is refused where it comes in, and ends nothing.
#[test]
fn forged_and_repeated_changes_are_refused() {
    let mut cluster = world::<Pbft>(1, vec![vec![0, 1, 2, 4], vec![0, 1, 2, 3]]);
    let (quorums, scheme) = (Quorums::new(4, 1).expect("a legal size"), Simulated::new(Index(0), 64));
    let check =
        |value: &Bytes, epoch| SignedChange::check(value, quorums, Domain { epoch, ..DOMAIN }, &scheme).map(drop);
    let right = change(1, &[0, 1, 3]);
    assert_eq!(check(&right, 0), Ok(()));
    assert_eq!(check(&right, 1), Err(ChangeError::Epoch { begins: 1, next: 2 }), "repeated");
    assert_eq!(check(&change(2, &[0, 1, 2]), 0), Err(ChangeError::Epoch { begins: 2, next: 1 }), "too early");
    assert_eq!(check(&change(1, &[0, 1]), 0), Err(ChangeError::Few { signed: 2, needed: 3 }));
    assert_eq!(check(&change(1, &[0, 1, 1]), 0), Err(ChangeError::Few { signed: 2, needed: 3 }), "one signs twice");
    assert_eq!(check(&change(1, &[0, 1, 9]), 0), Err(ChangeError::Few { signed: 2, needed: 3 }), "a stranger signs");
    let other = Domain { instance: B256::repeat_byte(9), ..DOMAIN };
    assert_eq!(SignedChange::check(&right, quorums, other, &scheme), Err(ChangeError::Signature), "of another network");
    for at in 0..right.len() {
        let mut flipped = right.to_vec();
        flipped[at] ^= 1;
        assert!(check(&flipped.into(), 0).is_err(), "byte {at} is changed");
    }
    for wrong in [change(1, &[0, 1]), change(2, &[0, 1, 2])] {
        (0..4).for_each(|node| cluster.submit_tx(node, wrong.clone()));
    }
    (0..8).for_each(|number| cluster.submit(number * 1_000, number));
    cluster.run(500_000);
    assert!((0..4).all(|node| cluster.epoch(node) == 0 && cluster.height(node) >= 8), "{}", cluster.describe());
    submit(&mut cluster, 1);
    settle(&mut cluster, 1, None, "signed by a quorum");
    // The same value, and one with the keys of a member that is none any longer.
    (0..5).for_each(|node| cluster.submit_tx(node, right.clone()));
    cluster.run(cluster.now() + 500_000);
    assert!([0, 1, 2, 4].iter().all(|node| cluster.epoch(*node) == 1), "{}", cluster.describe());
}

/// A leader that proposes a change which no quorum has signed is named, and its proposal is dropped.
#[test]
fn a_leader_that_proposes_a_forged_change_is_left() {
    let mut cluster = Net::<Pbft>::new(Setup { silent: [0].into(), interval: 4, timeout: 30_000, ..Setup::new(4) });
    let batch = Batch::new(0, Address::ZERO, vec![change(1, &[0, 1])]);
    for to in 1..4 {
        let proposal = PrePrepare { view: 0, slot: 1, batch: batch.clone() };
        cluster.inject(to, 0, Frame::Protocol(Msg::PrePrepare(proposal)), 1_000);
    }
    (0..4).for_each(|number| cluster.submit(number * 1_000, number));
    cluster.run(2_000_000);
    assert!((1..4).all(|node| cluster.forgers.contains(&(node, 0))), "{:?}", cluster.forgers);
    assert!((1..4).all(|node| cluster.height(node) >= 4 && cluster.epoch(node) == 0), "{}", cluster.describe());
}
