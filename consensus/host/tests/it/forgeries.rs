//! Lies of one replica to hosts of every protocol: votes in the names of others, and blocks that were never decided.

use crate::cluster::{DOMAIN, JUNK, Net, Setup};
use alloy_primitives::{Address, B256, Bytes};
use phalanx_adapter::Consensus as _;
use phalanx_bft::{Batch, Domain, Index, Lean, Signed, autobahn::Autobahn, pbft::Pbft, sbft::Sbft};
use phalanx_host::{Blocks, Filled, Frame, StateVote};
use phalanx_sim::model::{Costs, model_tx};
use phalanx_world::Facts;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    rc::Rc,
};

/// Replica 1 answers each state vote with a certificate of another result, signed in the names of the others. Replica 0 is slow,
/// so that the forged one comes before the true one.
fn forged_votes<P: Facts>() {
    let slow = [(0, Costs { execute_us: 30_000, ..Costs::default() })].into();
    let setup = Setup { silent: [3].into(), slow, timeout: 200_000, ..Setup::new(4) };
    let mut cluster = Net::<P>::new(setup);
    let lies = Rc::new(Cell::new(0));
    let told = Rc::clone(&lies);
    cluster.liar = Some(Box::new(move |_, _, frame| {
        let Frame::StateVote(seen) = frame else { return Vec::new() };
        let body = StateVote::new(seen.body.slot, seen.body.block, B256::repeat_byte(9), Lean::Final);
        let forged = |signer: u16| Signed { signer: Index(signer), signature: Bytes::from(vec![9; 64]), body };
        told.set(told.get() + 1);
        (0..3).map(|to| (to, Frame::Certificate((0..3).map(forged).collect()))).collect()
    }));
    (0..10).for_each(|number| cluster.submit(number * 10_000, number));
    cluster.run(20_000_000);
    assert!(cluster.halted.is_empty() && lies.get() > 0, "{:?}\n{}", cluster.halted, cluster.describe());
    assert_eq!(cluster.forgers, (0..3).map(|node| (node, 3)).collect(), "every node names the forger");
    assert!((0..3).all(|node| cluster.height(node) >= 1 && cluster.height(node) == cluster.height(0)));
}

#[test]
fn votes_in_the_names_of_others_certify_nothing() {
    forged_votes::<Pbft>();
    forged_votes::<Sbft>();
    forged_votes::<Autobahn>();
}

/// The first replica that receives a request for decided blocks answers with others.
fn invented_blocks<P: Facts>() {
    let mut cluster = Net::<P>::new(Setup { interval: 8, timeout: 100_000, ..Setup::new(7) });
    cluster.run(10_000);
    cluster.crash(3, 3_000_000);
    (0..60).for_each(|number| cluster.submit(number * 20_000, number));
    cluster.run(2_900_000);
    let lies = Rc::new(Cell::new(0));
    let told = Rc::clone(&lies);
    cluster.setup.silent.insert(1);
    cluster.liar = Some(Box::new(move |_, from, frame| {
        let Frame::WantBlocks(want) = frame else { return Vec::new() };
        let invented = |slot: u64| Batch::new(1, Address::ZERO, vec![model_tx(9, &slot.to_be_bytes())]);
        let batches = (want.from..=want.to).map(|slot| Filled::new(Some(invented(slot)))).collect();
        told.set(told.get() + 1);
        vec![(from, Frame::Blocks(Blocks { from: want.from, batches, outcome: Bytes::from(vec![7; 136]) }))]
    }));
    cluster.run(20_000_000);
    assert!(cluster.halted.is_empty() && lies.get() > 0, "{:?}\n{}", cluster.halted, cluster.describe());
    assert_eq!((cluster.height(3), cluster.root(3)), (cluster.height(0), cluster.root(0)), "{}", cluster.describe());
}

#[test]
fn blocks_that_were_never_decided_are_not_believed() {
    invented_blocks::<Pbft>();
    invented_blocks::<Sbft>();
    invented_blocks::<Autobahn>();
}

/// A replica orders bytes that are no transaction. No other replica votes for its batches, and the chain goes on without them.
fn junk<P: Facts>() {
    let mut cluster = Net::<P>::new(Setup { greedy: [0].into(), timeout: 100_000, batch_txs: 4, ..Setup::new(4) });
    cluster.run(10_000);
    for number in 0..20u8 {
        cluster.submit_tx(0, Bytes::from([JUNK, &[number]].concat()));
        cluster.submit(u64::from(number) * 10_000, u64::from(number));
    }
    cluster.run(20_000_000);
    assert!(cluster.halted.is_empty(), "{:?}\n{}", cluster.halted, cluster.describe());
    assert_eq!(cluster.forgers, (1..4).map(|node| (node, 0)).collect(), "every other node names the replica");
    let (mut ordered, height) = (BTreeSet::new(), cluster.height(1));
    for at in 1..=height {
        let block = cluster.host(1).block(at).expect("no fault").expect("retained");
        assert!(block.payload.txs().iter().all(|tx| !tx.starts_with(JUNK)), "junk in block {at}");
        ordered.extend(block.payload.txs().iter().cloned());
    }
    assert_eq!(ordered.len(), 20, "every client is served\n{}", cluster.describe());
    assert!((1..4).all(|node| cluster.height(node) == height), "{}", cluster.describe());
}

#[test]
fn bytes_that_are_no_transaction_are_not_ordered() {
    junk::<Pbft>();
    junk::<Sbft>();
    junk::<Autobahn>();
}

/// Statements of one network mean nothing in another with the same keys: a replica repeats all of them there.
fn other_networks<P: Facts + 'static>() {
    let heard = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&heard);
    let mut first = Net::<P>::new(Setup { silent: [3].into(), interval: 4, ..Setup::new(4) });
    first.liar = Some(Box::new(move |_, _, frame| {
        noted.borrow_mut().push(frame.clone());
        Vec::new()
    }));
    (0..20).for_each(|number| first.submit(number * 10_000, number));
    first.run(3_000_000);
    let others = [
        Domain { chain: 8, ..DOMAIN },
        Domain { epoch: 1, ..DOMAIN },
        Domain { instance: B256::repeat_byte(4), ..DOMAIN },
        Domain { instance: B256::ZERO, ..DOMAIN },
    ];
    for domain in others {
        let mut second = Net::<P>::new(Setup { domain, silent: [3].into(), interval: 4, ..Setup::new(4) });
        for (at, frame) in (0..).zip(heard.borrow().iter()) {
            (0..3).for_each(|to| second.inject(to, 3, frame.clone(), at * 500));
        }
        (50..60).for_each(|number| second.submit(number * 10_000, number));
        second.run(20_000_000);
        assert!(second.halted.is_empty(), "{domain:?}: {:?}\n{}", second.halted, second.describe());
        assert!((0..3).all(|node| second.height(node) >= 1 && second.height(node) == second.height(0)), "{domain:?}");
        assert!(!second.forgers.is_empty(), "{domain:?}: nothing signed for another network is refused");
    }
}

#[test]
fn statements_of_another_network_are_forgeries() {
    other_networks::<Pbft>();
    other_networks::<Sbft>();
    other_networks::<Autobahn>();
}
