//! Autobahn and SBFT as replicas: stops, restarts, cuts; one result per height, and single messages that prove a transaction.

use crate::kit::{AUTOBAHN_TIMEOUT, Net, PATIENCE, config, folder, machine};
use alloy_primitives::B256;
use phalanx_bft::Index;
use phalanx_net::{Beginning, Client, Cut, NetConfig, ProtocolName, Replica, ReplicaError, Reply, Request};
use phalanx_sim::model::Disk;
use std::{
    path::Path,
    time::{Duration, Instant},
};

const SHORT: Duration = Duration::from_millis(150);

fn of(protocol: ProtocolName, n: usize, dir: &Path) -> NetConfig {
    let mut config = config(n, dir);
    (config.protocol, config.interval) = (protocol, 8);
    if protocol == ProtocolName::Autobahn {
        config.timeout_us = AUTOBAHN_TIMEOUT;
    }
    config
}

/// Each replica in turn is away while the others go on, and comes back from its log; then a minority is cut off.
fn survives(protocol: ProtocolName, n: usize) {
    let folder = folder();
    let mut net = Net::new(of(protocol, n, folder.path()));
    net.submit(40);
    net.settle();
    for victim in [0, n - 1] {
        net.submit(40);
        net.listen(SHORT);
        net.stop(victim);
        net.submit(40);
        net.listen(SHORT);
        net.resubmit();
        net.settle();
        net.start(victim);
        net.submit(20);
        net.resubmit();
        net.settle();
    }
    for cut in [Cut::Holds, Cut::Loses] {
        for index in 0..n as u16 {
            let others = (0..n as u16).filter(|other| (*other == 1) != (index == 1)).map(Index);
            net.replica(index.into()).cut(&others.collect::<Vec<_>>(), cut);
        }
        net.submit(30);
        net.listen(SHORT * 2);
        (0..n).for_each(|index| net.replica(index).cut(&[], cut));
        net.resubmit();
        net.settle();
    }
    net.check();
}

#[test]
fn autobahn_survives_stops_and_cuts() {
    survives(ProtocolName::Autobahn, 4);
}

#[test]
fn sbft_survives_stops_and_cuts() {
    survives(ProtocolName::Sbft, 4);
}

#[test]
fn sbft_with_a_spare_replica_survives_stops_and_cuts() {
    survives(ProtocolName::Sbft, 6);
}

/// All stop at once under load, and begin again from their logs.
#[test]
fn all_replicas_of_both_start_again() {
    for protocol in [ProtocolName::Autobahn, ProtocolName::Sbft] {
        let folder = folder();
        let mut net = Net::new(of(protocol, 4, folder.path()));
        for _ in 0..2 {
            net.submit(50);
            net.listen(Duration::from_millis(60));
            (0..4).for_each(|index| net.stop(index));
            (0..4).for_each(|index| net.start(index));
            net.resubmit();
            net.settle();
        }
        net.check();
    }
}

/// Away past several checkpoints, of 4 slots each: the decided blocks come from a peer. Blocks may hold several batches.
fn catches_up(protocol: ProtocolName) {
    let folder = folder();
    let mut config = of(protocol, 4, folder.path());
    (config.batch_txs, config.interval) = (1, 4);
    let mut net = Net::new(config);
    net.submit(4);
    net.settle();
    net.stop(3);
    // Each round is a block of its own at least, however many batches a loaded machine puts into one.
    (0..10).for_each(|_| {
        net.submit(5);
        net.settle();
    });
    net.start(3);
    net.submit(4);
    net.settle();
    net.check();
    assert!(net.replica(3).status().committed > 2 * 4, "{:?}", net.replica(3).status());
}

#[test]
fn autobahn_catches_up_past_checkpoints() {
    catches_up(ProtocolName::Autobahn);
}

#[test]
fn sbft_catches_up_past_checkpoints() {
    catches_up(ProtocolName::Sbft);
}

/// Without failures every block takes the fast path; while a replica is away none can, at n = 4.
#[test]
fn sbft_counts_its_paths() {
    let folder = folder();
    let mut net = Net::new(of(ProtocolName::Sbft, 4, folder.path()));
    net.submit(60);
    net.settle();
    let before = net.replica(1).status();
    assert!(before.fast > 0, "{before:?}");
    net.stop(3);
    net.submit(60);
    net.settle();
    let without = net.replica(1).status();
    assert!(without.slow > before.slow, "{without:?}");
    net.start(3);
    let end = Instant::now() + PATIENCE;
    while net.replica(1).status().fast <= without.fast {
        assert!(Instant::now() < end, "{:?}", net.replica(1).status());
        net.submit(10);
        net.settle();
    }
}

/// A client of all replicas gets one message that proves its transaction.
#[test]
fn an_acknowledgement_comes_from_one_replica() {
    let folder = folder();
    let mut net = Net::new(of(ProtocolName::Sbft, 4, folder.path()));
    let hash: B256 = net.hash(0);
    let (told, messages) = std::sync::mpsc::channel();
    for index in 0..4 {
        let mut client = Client::connect(net.config.replicas[index].clients, PATIENCE).expect("it listens");
        client.sender().expect("a descriptor").send(&Request::Await(vec![hash])).expect("it reads");
        let told = told.clone();
        std::thread::spawn(move || {
            while let Ok(reply) = client.receive() {
                if told.send((index, reply)).is_err() {
                    return;
                }
            }
        });
    }
    // What is awaited is known before it is ordered.
    net.listen(SHORT);
    net.submit(25);
    net.settle();
    let (_, reply) = messages.recv_timeout(PATIENCE).expect("a message");
    let Reply::Acknowledged(message) = reply else { panic!("{reply:?}") };
    assert_eq!(message.tx, hash);
    let key = net.group_key();
    let trust = phalanx_merkle_proof::Trust {
        chain: net.config.chain,
        epoch: 0,
        instance: net.config.instance.0,
        public_key: &key,
    };
    let known = phalanx_merkle_proof::verify_acknowledgement(&trust, &hash.0, &message.bytes).expect("a proof");
    println!("{} bytes prove a transaction of {}", message.bytes.len(), known.fate.count);
    assert!(message.bytes.len() < 600, "{}", message.bytes.len());
    let other = phalanx_merkle_proof::Trust { chain: 8, ..trust };
    assert!(phalanx_merkle_proof::verify_acknowledgement(&other, &hash.0, &message.bytes).is_err(), "another chain");
    assert!((0..4).map(|index| net.replica(index).status().acknowledged).sum::<u64>() >= 1);
}

#[test]
fn keys_without_shares_and_of_other_thresholds_are_refused() {
    let folder = folder();
    let mut net = Net::new(of(ProtocolName::Sbft, 4, folder.path()));
    net.stop(2);
    let single = phalanx_keys::deal(4, &[4; 32]).expect("keys").swap_remove(2);
    let kept = std::mem::replace(&mut net.keys[2], single.into());
    assert!(matches!(net.try_start(2), Err(ReplicaError::Shares)));
    // Seven replicas withstand two faulty ones, or none with six to spare.
    let (seven, other) = (of(ProtocolName::Sbft, 7, folder.path()), phalanx_keys::deal_bls(7, 0, &[4; 32]));
    let keys = other.expect("keys").swap_remove(2);
    let started = Replica::start(&seven, keys, folder.path(), machine(Disk::default()).1, Beginning::Usual);
    assert!(matches!(started, Err(ReplicaError::Faults { keys: 0, faults: 2 })));
    net.keys[2] = kept;
    net.start(2);
    net.submit(10);
    net.settle();
}
