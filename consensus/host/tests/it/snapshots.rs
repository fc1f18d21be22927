//! Nodes that are behind all that others retain: they learn it, take a state that a quorum has signed, and vote again behind it.

use crate::{
    cluster::{Cluster, Net, Setup},
    silence::{agree, agree_above, until_it_speaks, world},
};
use alloy_primitives::{B256, Bytes};
use phalanx_bft::{Domain, Index, autobahn::Autobahn, pbft::Pbft, sbft::Sbft};
use phalanx_host::{Certified, Frame};
use phalanx_keys::Simulated;
use phalanx_world::Facts;

/// Runs under load until a node lacks what no other one retains.
fn until_behind<P: Facts>(cluster: &mut Net<P>, node: usize, number: &mut u64) {
    for _ in 0..300 {
        if cluster.behind.contains_key(&node) {
            return;
        }
        (0..4).for_each(|at| cluster.submit(at * 500, *number + at));
        *number += 4;
        cluster.run(cluster.now() + 20_000);
    }
    panic!("node {node} never learns that it is behind\n{}", cluster.describe());
}

/// Lets a node take the newest state of another one, and start on it.
fn take<P: Facts>(cluster: &mut Net<P>, node: usize, from: usize, number: &mut u64) -> u64 {
    for _ in 0..300 {
        if let Some((block, disk)) = cluster.snapshot(from) {
            let scheme = Simulated::new(Index(node as u16), 64);
            let anchor = block.check(&cluster.config(node), &scheme).expect("a quorum has signed it");
            cluster.crash(node, 1_000);
            cluster.join(node, &anchor, disk);
            return anchor.tip().slot;
        }
        cluster.submit(500, *number);
        *number += 1;
        cluster.run(cluster.now() + 10_000);
    }
    panic!("node {from} has no block that votes certify\n{}", cluster.describe());
}

/// A wiped node cannot fetch the blocks, because all have pruned them. It takes a state, is killed right after, takes a newer one, and is one
/// of the three that the order needs again.
fn comes_back_by_a_state<P: Facts>(seed: u64) {
    let mut cluster = world::<P>(seed);
    (cluster.setup.compacts, cluster.setup.retention) = (true, 16);
    for node in 0..4 {
        cluster.crash(node, 1);
    }
    let mut number = 0;
    for _ in 0..40 {
        cluster.submit(1_000, number);
        number += 1;
        cluster.run(cluster.now() + 10_000);
    }
    cluster.run(cluster.now() + 200_000);
    cluster.wipe(3, 1_000);
    until_behind(&mut cluster, 3, &mut number);
    assert_eq!((cluster.height(3), cluster.behind[&3]), (0, 0), "{}", cluster.describe());
    // It is killed before it has done anything with the first state.
    let mut height = take(&mut cluster, 3, 1, &mut number);
    cluster.run(cluster.now() + 2_000);
    assert!(cluster.height(3) >= height && !cluster.speaks(3), "{}", cluster.describe());
    cluster.crash(3, 200_000);
    // The others have gone on without it: it may need another state.
    for _ in 0..60 {
        (0..4).for_each(|at| cluster.submit(at * 500, number + at));
        number += 4;
        cluster.run(cluster.now() + 20_000);
        if cluster.behind.contains_key(&3) {
            height = take(&mut cluster, 3, 0, &mut number);
        }
    }
    until_it_speaks(&mut cluster, 3, &mut number);
    assert!(cluster.height(3) > height, "{}", cluster.describe());
    agree(&mut cluster, &[0, 1, 2, 3]);
    // Its log was replaced meanwhile, and is read again.
    cluster.crash(3, 1_000);
    cluster.crash(0, 3_600_000_000);
    let height = cluster.height(1);
    (0..12).for_each(|at| cluster.submit(at * 1_000, 10_000 + at));
    agree_above(&mut cluster, &[1, 2, 3], height);
    assert!(cluster.halted.is_empty() && cluster.accused.is_empty(), "{:?} {:?}", cluster.halted, cluster.accused);
}

#[test]
fn a_node_that_all_have_pruned_behind_comes_back_by_a_state_with_views() {
    (0..3).for_each(comes_back_by_a_state::<Pbft>);
}

#[test]
fn a_node_that_all_have_pruned_behind_comes_back_by_a_state_with_collectors() {
    (0..3).for_each(comes_back_by_a_state::<Sbft>);
}

#[test]
fn a_node_that_all_have_pruned_behind_comes_back_by_a_state_with_lanes() {
    (0..3).for_each(comes_back_by_a_state::<Autobahn>);
}

/// Fewer than f+1 peers say that they have pruned what others serve: the node goes on.
#[test]
fn liars_make_no_node_believe_that_it_is_behind() {
    let setup = Setup { silent: [1].into(), interval: 4, timeout: 30_000, ..Setup::new(7) };
    let mut cluster = Cluster::new(setup);
    cluster.liar = Some(Box::new(|_, victim, frame| match frame {
        Frame::WantBlocks(_) => vec![(victim, Frame::Pruned(u64::MAX))],
        _ => Vec::new(),
    }));
    cluster.crash(3, 400_000);
    (0..20).for_each(|number| cluster.submit(number * 5_000, number));
    cluster.run(2_000_000);
    (20..24).for_each(|number| cluster.submit(number * 100, number));
    agree_above(&mut cluster, &[0, 2, 3, 4, 5, 6], 20);
    assert!(cluster.delivered["pruned"] > 0 && cluster.behind.is_empty(), "{:?}", cluster.delivered);
}

/// Every field of a block with its certificate is bound: by the votes, or by the execution that they name.
#[test]
fn a_changed_block_has_no_certificate() {
    let mut cluster = Cluster::new(Setup::new(4));
    (0..6).for_each(|number| cluster.submit(number * 1_000, number));
    cluster.run(1_000_000);
    let (block, _) = cluster.snapshot(0).expect("votes certify it");
    let scheme = Simulated::new(Index(3), 64);
    let check = |block: &Certified| block.clone().check(&cluster.config(3), &scheme);
    let anchor = check(&block).expect("nothing is changed");
    assert_eq!(anchor.tip().slot, cluster.height(0));
    let flipped = |bytes: &Bytes, at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        Bytes::from(bytes)
    };
    type Change<'a> = (&'a str, &'a dyn Fn(&mut Certified));
    let changes: [Change<'_>; 6] = [
        ("slot", &|block| block.slot -= 1),
        ("name", &|block| block.block = B256::ZERO),
        ("parent", &|block| block.parent = B256::ZERO),
        ("time", &|block| block.timestamp_ms += 1),
        ("beneficiary", &|block| block.beneficiary.0[0] ^= 1),
        ("transactions", &|block| block.payload = B256::ZERO),
    ];
    for (what, change) in changes {
        let mut changed = block.clone();
        change(&mut changed);
        assert_eq!(check(&changed), None, "{what}");
    }
    for at in 0..block.result.len() {
        assert_eq!(
            check(&Certified { result: flipped(&block.result, at), ..block.clone() }),
            None,
            "result, byte {at}"
        );
    }
    for at in 0..block.certificate.len() {
        let certificate = flipped(&block.certificate, at);
        assert_eq!(check(&Certified { certificate, ..block.clone() }), None, "certificate, byte {at}");
    }
    let mut other = cluster.config(3);
    other.domain = Domain { instance: B256::repeat_byte(8), ..other.domain };
    assert_eq!(block.clone().check(&other, &scheme), None, "the votes are of another network");
    let mut other = cluster.config(3);
    other.rules.chain += 1;
    assert_eq!(block.check(&other, &scheme), None, "the execution is of another chain");
}
