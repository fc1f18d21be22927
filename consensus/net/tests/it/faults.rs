//! Stops, restarts, cuts, delays and losses: one result per height, every transaction settled, all at one state.

use crate::kit::{Net, PATIENCE, config, folder};
use phalanx_bft::Index;
use phalanx_net::{Authentication, Cut, Durability, Links, ProtocolName, ReplicaError};
use std::{
    fs,
    time::{Duration, Instant},
};

const SHORT: Duration = Duration::from_millis(150);

#[test]
fn every_authentication_durability_and_number_of_batch_threads_orders() {
    let cases = [
        (Authentication::None, Durability::None, 0),
        (Authentication::Mac, Durability::Each, 2),
        (Authentication::Ed25519, Durability::Group, 1),
    ];
    for (authentication, durability, batch_threads) in cases {
        let folder = folder();
        let mut config = config(4, folder.path());
        (config.authentication, config.durability, config.batch_threads) = (authentication, durability, batch_threads);
        let mut net = Net::new(config);
        (0..5).for_each(|_| {
            net.submit(40);
            net.listen(Duration::from_millis(20));
        });
        net.settle();
        net.check();
        assert!((0..4).all(|index| net.replica(index).status().refused.is_empty()), "{authentication:?}");
    }
}

#[test]
fn primary_and_backup_stop_under_load_and_come_back() {
    let folder = folder();
    let mut net = Net::new(config(4, folder.path()));
    for victim in [0, 2, 1] {
        net.submit(60);
        net.listen(SHORT);
        net.stop(victim);
        net.submit(60);
        // The others go on without it.
        net.settle();
        net.start(victim);
        net.submit(30);
        net.settle();
    }
    assert!(net.replica(3).status().view > 0, "the first primary was left");
    net.check();
}

/// A replica that was away past several checkpoints fetches decided blocks; the log is replaced meanwhile.
#[test]
fn a_replica_that_was_away_past_checkpoints_catches_up() {
    let folder = folder();
    let mut config = config(4, folder.path());
    (config.batch_txs, config.interval) = (1, 4);
    let mut net = Net::new(config);
    net.submit(4);
    net.settle();
    net.stop(3);
    (0..20).for_each(|_| {
        net.submit(5);
        net.listen(Duration::from_millis(10));
    });
    net.settle();
    let height = net.audit.settled();
    assert!(height > 40, "{height}");
    net.start(3);
    net.submit(4);
    net.settle();
    net.check();
    assert!(net.replica(3).status().transfers > 0);
}

/// Logs are replaced several times, and each replica starts from what the last replacement left.
#[test]
fn replaced_logs_restore_their_replicas() {
    for protocol in [ProtocolName::Pbft, ProtocolName::Sbft, ProtocolName::Autobahn] {
        let folder = folder();
        let mut config = config(4, folder.path());
        (config.protocol, config.batch_txs, config.interval) = (protocol, 5, 4);
        config.log_bytes = 2 << 10;
        let mut net = Net::new(config);
        let end = Instant::now() + PATIENCE;
        while (0..4).any(|index| net.replica(index).status().compactions < 2) {
            assert!(Instant::now() < end, "{protocol:?}: logs stay as they are");
            net.submit(10);
            net.listen(Duration::from_millis(20));
        }
        net.settle();
        (0..4).for_each(|index| net.stop(index));
        (0..4).for_each(|index| net.start(index));
        net.submit(20);
        net.settle();
        net.check();
    }
}

/// The write of a replacement fails: the replica stops, the others go on, and it starts again from its old log.
#[test]
fn a_failed_write_stops_a_replica_and_loses_nothing() {
    let folder = folder();
    let mut config = config(4, folder.path());
    (config.batch_txs, config.interval) = (5, 4);
    config.log_bytes = 2 << 10;
    let obstacle = config.replicas[2].dir.join("log.next");
    fs::create_dir_all(&obstacle).expect("a folder in the place of the file");
    let mut net = Net::new(config);
    let end = Instant::now() + PATIENCE;
    while !net.replica(2).has_ended() {
        assert!(Instant::now() < end, "the log is never replaced");
        net.submit(10);
        net.listen(Duration::from_millis(20));
    }
    let reason = net.failed(2);
    assert!(matches!(reason, ReplicaError::Write(_)) && reason.to_string().contains("log"), "{reason}");
    net.submit(20);
    net.settle();
    fs::remove_dir(&obstacle).expect("it is empty");
    net.start(2);
    net.submit(20);
    net.settle();
    net.check();
}

#[test]
fn cuts_of_both_kinds_delays_and_losses_heal() {
    let folder = folder();
    let mut config = config(4, folder.path());
    let row = |from: usize| (0..4).map(|to| if from == to { 0 } else { 2_000 }).collect();
    let delay_us = (0..4).map(row).collect();
    config.links = Links { delay_us, bandwidth: 20_000_000, loss_per_mille: 20, seed: 5 };
    let mut net = Net::new(config);
    for (side, cut) in [([0, 1], Cut::Holds), ([2, 0], Cut::Loses)] {
        net.submit(40);
        net.listen(SHORT);
        for index in 0..4u16 {
            let others = (0..4).filter(|other| side.contains(other) != side.contains(&index)).map(Index);
            net.replica(index.into()).cut(&others.collect::<Vec<_>>(), cut);
        }
        net.submit(40);
        net.listen(SHORT * 4);
        (0..4).for_each(|index| net.replica(index).cut(&[], cut));
        net.settle();
    }
    net.check();
}

/// All stop at once, and begin again from their logs.
#[test]
fn all_stop_and_start_again() {
    let folder = folder();
    let mut net = Net::new(config(4, folder.path()));
    for _ in 0..3 {
        net.submit(50);
        net.listen(Duration::from_millis(60));
        (0..4).for_each(|index| net.stop(index));
        (0..4).for_each(|index| net.start(index));
        // What no replica had ordered is gone with their pools: clients send it again.
        net.resubmit();
        net.settle();
    }
    net.check();
}

/// A replica whose result differs from the certified one stops, says why, and stays down; the others go on.
#[test]
fn a_replica_with_a_wrong_result_stops_and_keeps_the_incident() {
    let folder = folder();
    let mut net = Net::new(config(4, folder.path()));
    net.submit(20);
    net.settle();
    net.replicas[2].as_ref().expect("it runs").1.diverge_at(net.audit.settled() + 1);
    net.submit(20);
    let end = Instant::now() + PATIENCE;
    while !net.replica(2).has_ended() {
        assert!(Instant::now() < end, "{:?}", net.replica(2).status());
        net.listen(Duration::from_millis(20));
    }
    let (replica, _) = net.replicas[2].take().expect("it ran");
    assert!(matches!(replica.stop(), Err(ReplicaError::Halted(_))));
    assert!(matches!(net.try_start(2), Err(ReplicaError::Incident { .. })));
    let text = std::fs::read_to_string(net.config.replicas[2].dir.join("incident.txt")).expect("an incident");
    assert!(text.contains("certificate"), "{text}");
    net.submit(10);
    net.settle();
}
