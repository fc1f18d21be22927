//! Configurations, keys and files that are wrong: a sentence, and nothing is started or changed.

use crate::kit::{Net, config, folder, machine};
use phalanx_net::{Links, NetConfig, Replica, ReplicaError, ReplicaKeys};
use phalanx_sim::model::Disk;
use std::{fs, net::TcpListener};

/// Keys of replica 1 of `n`.
fn dealt(n: usize) -> ReplicaKeys {
    phalanx_keys::deal(n, &[4; 32]).expect("keys").swap_remove(1).into()
}

fn refusal(change: impl FnOnce(&mut NetConfig)) -> String {
    let folder = folder();
    let mut config = config(4, folder.path());
    change(&mut config);
    let replica = Replica::start(&config, dealt(4), &folder.path().join("replica-1"), machine(Disk::default()).1);
    replica.expect_err("a wrong configuration").to_string()
}

#[test]
fn wrong_configurations_are_refused_with_a_sentence() {
    let cases: Vec<(String, &str)> = vec![
        (refusal(|config| config.version = 2), "version 2, and this program reads version 1"),
        (refusal(|config| config.faults = 2), "7"),
        (refusal(|config| config.replicas.truncate(1)), "use at least 4"),
        (refusal(|config| config.batch_txs = 0), "`batch_txs` is 0"),
        (refusal(|config| config.interval = 0), "`interval` is 0"),
        (refusal(|config| config.timeout_us = 0), "`timeout` is 0"),
        (refusal(|config| config.batch_bytes = 1), "`batch_bytes` is 1"),
        (refusal(|config| config.log_bytes = 0), "`log_bytes` is 0"),
        (refusal(|config| config.replicas[2].peers = config.replicas[1].clients), "is listed twice"),
        (
            refusal(|config| config.replicas[2].dir = config.replicas[1].dir.clone()),
            "replicas 1 and 2 share the folder",
        ),
        (refusal(|config| config.links = Links { delay_us: vec![vec![1; 4]; 3], ..Links::default() }), "4 rows of 4"),
        (refusal(|config| config.links.loss_per_mille = 1_000), "loss_per_mille"),
    ];
    for (sentence, expected) in cases {
        assert!(sentence.contains(expected), "{sentence}");
    }
    let folder = folder();
    let config = config(4, folder.path());
    let of_seven = Replica::start(&config, dealt(7), folder.path(), machine(Disk::default()).1);
    assert!(matches!(of_seven, Err(ReplicaError::Count { keys: 7, replicas: 4 })));
    let taken = TcpListener::bind(config.replicas[1].peers).expect("free");
    let in_use = Replica::start(&config, dealt(4), folder.path(), machine(Disk::default()).1);
    assert!(matches!(in_use, Err(ReplicaError::Listen { .. })), "{in_use:?}");
    drop(taken);
}

#[test]
fn damaged_logs_and_incidents_keep_a_replica_down() {
    let folder = folder();
    let mut net = Net::new(config(4, folder.path()));
    net.submit(30);
    net.settle();
    net.stop(1);
    let dir = net.config.replicas[1].dir.clone();
    let whole = fs::read(dir.join("log")).expect("a log");
    for at in [3, 12_300, 6_144 + whole.len() / 2, whole.len() - 2] {
        let mut bytes = whole.clone();
        bytes[at] ^= 16;
        fs::write(dir.join("log"), &bytes).expect("a file");
        assert!(matches!(net.try_start(1), Err(ReplicaError::Log(_))), "byte {at}");
        assert_eq!(fs::read(dir.join("log")).expect("a log"), bytes, "it is left as it is");
    }
    fs::write(dir.join("log"), &whole).expect("a file");
    fs::write(dir.join("incident.txt"), "another result").expect("a file");
    assert!(matches!(net.try_start(1), Err(ReplicaError::Incident { .. })));
    fs::remove_file(dir.join("incident.txt")).expect("a file");
    net.start(1);
    net.submit(10);
    net.settle();
}
