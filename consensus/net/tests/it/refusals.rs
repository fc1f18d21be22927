//! Configurations, keys and files that are wrong: a sentence, and nothing is started or changed.

use crate::kit::{AUTOBAHN_TIMEOUT, Net, PATIENCE, config, folder, machine};
use alloy_primitives::B256;
use phalanx_bft::Index;
use phalanx_net::{
    Beginning, Links, LogError, NetConfig, ProtocolName, Replica, ReplicaError, ReplicaKeys, leave_token,
};
use phalanx_sim::model::Disk;
use std::{
    fs,
    net::TcpListener,
    time::{Duration, Instant},
};

/// Keys of replica 1 of `n`.
fn dealt(n: usize) -> ReplicaKeys {
    phalanx_keys::deal(n, &[4; 32]).expect("keys").swap_remove(1).into()
}

fn refusal(change: impl FnOnce(&mut NetConfig)) -> String {
    let folder = folder();
    let mut config = config(4, folder.path());
    change(&mut config);
    let replica = Replica::start(
        &config,
        dealt(4),
        &folder.path().join("replica-1"),
        machine(Disk::default()).1,
        Beginning::Usual,
    );
    replica.expect_err("a wrong configuration").to_string()
}

#[test]
fn wrong_configurations_are_refused_with_a_sentence() {
    let cases: Vec<(String, &str)> = vec![
        (refusal(|config| config.version = 1), "version 1, and this program reads version 2"),
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
    let of_seven = Replica::start(&config, dealt(7), folder.path(), machine(Disk::default()).1, Beginning::Usual);
    assert!(matches!(of_seven, Err(ReplicaError::Count { keys: 7, replicas: 4 })));
    leave_token(&config, Index(1), folder.path()).expect("a folder");
    let taken = TcpListener::bind(config.replicas[1].peers).expect("free");
    let in_use = Replica::start(&config, dealt(4), folder.path(), machine(Disk::default()).1, Beginning::Usual);
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

/// A replica that may have voted before votes on no other log than its own: not without one, nor on another replica's, nor on one of
/// another network with the same keys.
#[test]
fn a_replica_votes_on_its_own_log_alone() {
    for protocol in [ProtocolName::Pbft, ProtocolName::Sbft, ProtocolName::Autobahn] {
        let folder = folder();
        let mut config = config(4, folder.path());
        config.protocol = protocol;
        let mut net = Net::new(config);
        net.submit(20);
        net.settle();
        (1..3).for_each(|index| net.stop(index));
        let dirs: Vec<_> = net.config.replicas.iter().map(|member| member.dir.clone()).collect();
        let log = fs::read(dirs[1].join("log")).expect("a log");
        let refused = |net: &mut Net| match net.try_start(1) {
            Err(ReplicaError::Log(error)) => error,
            other => panic!("{protocol:?}: {other:?}"),
        };
        fs::remove_dir_all(&dirs[1]).expect("a folder");
        assert!(matches!(refused(&mut net), LogError::Lost { .. }), "{protocol:?}: a folder that was wiped");
        // An empty log is left behind, and is as bad as none.
        assert!(matches!(refused(&mut net), LogError::Lost { .. }));
        fs::copy(dirs[2].join("log"), dirs[1].join("log")).expect("a log");
        assert!(matches!(refused(&mut net), LogError::Foreign { .. }), "{protocol:?}: another replica's log");
        fs::write(dirs[1].join("log"), &log).expect("a file");
        let name = core::mem::replace(&mut net.config.instance, B256::repeat_byte(6));
        assert!(matches!(refused(&mut net), LogError::Foreign { .. }), "{protocol:?}: another network's log");
        net.config.instance = name;
        (1..3).for_each(|index| net.start(index));
        net.submit(20);
        net.settle();
    }
}

/// A copy of a folder, which may be older than what its replica has said, is refused until a person vouches for it.
#[test]
fn a_copied_folder_is_refused() {
    let folder = folder();
    let mut net = Net::new(config(4, folder.path()));
    net.submit(20);
    net.settle();
    net.stop(2);
    let dir = net.config.replicas[2].dir.clone();
    let aside = dir.with_extension("aside");
    fs::rename(&dir, &aside).expect("a folder");
    fs::create_dir(&dir).expect("a folder");
    for name in ["log", "place"] {
        fs::copy(aside.join(name), dir.join(name)).expect("a file");
    }
    let copied = net.try_start(2);
    assert!(matches!(&copied, Err(ReplicaError::Copied { path }) if *path == dir.join("place")), "{copied:?}");
    net.begin(2, Beginning::Moved);
    net.submit(10);
    net.settle();
    // From now on it is the place of the folder.
    net.stop(2);
    net.start(2);
    net.submit(10);
    net.settle();
}

/// A replica without its log says nothing at first. In the end it is one of the three of four that the order needs.
fn rejoins_without_its_log(protocol: ProtocolName) {
    let folder = folder();
    let mut config = config(4, folder.path());
    (config.protocol, config.interval, config.batch_txs) = (protocol, 4, 2);
    // A busy machine costs no view while one replica is silent.
    config.timeout_us = if protocol == ProtocolName::Autobahn { AUTOBAHN_TIMEOUT } else { 3_000_000 };
    let mut net = Net::new(config);
    net.submit(20);
    net.settle();
    net.stop(3);
    net.wipe(3);
    net.begin(3, Beginning::Silent);
    assert!(net.replica(3).status().silent);
    // A restart meanwhile changes nothing.
    net.submit(4);
    net.settle();
    net.stop(3);
    net.start(3);
    let end = Instant::now() + PATIENCE;
    while net.replica(3).status().silent {
        assert!(Instant::now() < end, "{:#?}", net.replica(3).status());
        net.submit(4);
        net.listen(Duration::from_millis(20));
    }
    net.settle();
    net.stop(0);
    net.submit(20);
    net.resubmit();
    net.settle();
    net.check();
}

#[test]
fn pbft_rejoins_without_a_log() {
    rejoins_without_its_log(ProtocolName::Pbft);
}

#[test]
fn sbft_rejoins_without_a_log() {
    rejoins_without_its_log(ProtocolName::Sbft);
}

#[test]
fn autobahn_rejoins_without_a_log() {
    rejoins_without_its_log(ProtocolName::Autobahn);
}
