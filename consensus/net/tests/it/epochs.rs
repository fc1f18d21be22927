//! Members change while replicas run: each goes on in the next epoch from its own log, and a new one from the others.

use crate::{
    joining::Chunks,
    kit::{Net, PATIENCE, config, folder},
};
use alloy_primitives::{B256, Bytes};
use phalanx_bft::{Index, Signed, Statement as _};
use phalanx_keys::{Ed25519, Scheme as _};
use phalanx_net::{
    Before, Change, Joining, LogError, NetConfig, NetConfigError, ProtocolName, ReplicaError, SignedChange,
    find_beginning, join, leave_token,
};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// The network of the next epoch, in which replica 3 is another one.
fn next(config: &NetConfig, keys: &[B256]) -> NetConfig {
    let mut next = config.clone();
    next.epoch += 1;
    next.before = Some(Before { faults: config.faults, keys: keys.to_vec() });
    next.replicas[3].dir = next.replicas[3].dir.with_file_name(format!("new-{}", next.epoch));
    next
}

/// A change that the first three members of a network have signed.
fn signed(net: &Net, change: Change) -> Bytes {
    let signed = (0..3).map(|signer| {
        let scheme = Ed25519::new(net.keys[signer].single()).expect("keys");
        let signature = scheme.sign(&change.signed_bytes(net.config.domain()));
        Signed { signer: Index(signer as u16), signature, body: change }
    });
    SignedChange::new(signed.collect()).to_value()
}

/// One member is replaced. The leader is stopped in between, and comes back with the old configuration.
fn replaces_a_member(protocol: ProtocolName, stop_after: Duration) {
    let folder = folder();
    let mut config = config(4, folder.path());
    config.protocol = protocol;
    let mut net = Net::new(config.clone());
    net.submit(40);
    net.settle();
    let before = net.keys[0].single().public_keys().to_vec();
    let next = next(&config, &before);
    let (old_keys, new_keys) = (net.keys.clone(), Net::keys_of(&next, 9));
    let change = Change { epoch: 1, network: next.digest(new_keys[0].single().public_keys()) };
    let value = signed(&net, change);
    // The last members' signatures are of another change.
    net.send_value(&signed(&net, Change { epoch: 2, ..change }));
    net.listen(Duration::from_millis(50));
    net.send_value(&value);
    net.listen(stop_after);
    let leader = usize::from(net.replica(1).status().leader);
    let (mut started, mut ends) = (BTreeSet::new(), None);
    if net.replica(leader).has_ended() {
        assert!(matches!(net.failed(leader), ReplicaError::Ended { epoch: 1, .. }));
    } else {
        net.stop(leader);
    }
    let end = Instant::now() + PATIENCE;
    while started.len() < 4 {
        assert!(Instant::now() < end, "{started:?}: {:#?}", net.statuses());
        net.listen(Duration::from_millis(50));
        for index in 0..4 {
            let is_up = net.replicas[index].is_some();
            if started.contains(&index) || is_up && !net.replica(index).has_ended() {
                // A client repeats what is not answered.
                net.send_value(&value);
                continue;
            }
            if is_up {
                let ReplicaError::Ended { epoch: 1, height, network } = net.failed(index) else { panic!("{index}") };
                assert_eq!((ends.replace(height).unwrap_or(height), network), (height, change.network));
            } else {
                // With the old configuration it is told where to go on, or goes on in the old epoch.
                net.config = config.clone();
                net.keys = old_keys.clone();
                match net.try_start(index) {
                    Ok(()) => continue,
                    Err(ReplicaError::Ended { epoch: 1, .. }) => {}
                    Err(error) => panic!("{index}: {error}"),
                }
            }
            net.config = next.clone();
            net.keys = new_keys.clone();
            if index == 3 {
                net.replace(3);
                assert!(matches!(net.try_start(3), Err(ReplicaError::NoBoundary { epoch: 1 })));
                leave_token(&next, Index(3), &next.replicas[3].dir).expect("a folder");
            } else {
                net.start(index);
            }
            started.insert(index);
        }
    }
    (net.config, net.keys) = (next.clone(), new_keys.clone());
    assert!(find_beginning(&next, &new_keys[3], &next.replicas[3].dir, &mut || true).expect("files"));
    net.start(3);
    assert!(!net.replica(3).status().silent, "it has said nothing yet");
    net.resubmit();
    net.submit(40);
    net.settle();
    net.check();
    assert!((0..4).all(|index| net.replica(index).status().epoch == 1));
    // Who joins by a snapshot with the older configuration is led into this epoch, and from then on by its folder.
    let dir = folder.path().join("joins");
    std::fs::create_dir_all(&dir).expect("a folder");
    for _ in 0..2 {
        let mut lied = false;
        let mut watch = |step| {
            lied |= matches!(step, Joining::Lied { .. });
            true
        };
        let led = join(&config, &old_keys[0], &dir, &mut Chunks::default(), &mut watch);
        assert!(matches!(led, Err(ReplicaError::Ended { epoch: 1, .. })) && !lied, "{led:?}");
    }
    // The new one is needed now.
    net.stop(0);
    net.submit(20);
    net.settle();
    net.check();
    // The log is that of the new epoch, and the folder has its number.
    net.stop(1);
    (net.config, net.keys) = (config, old_keys);
    assert!(matches!(net.try_start(1), Err(ReplicaError::Ended { epoch: 1, .. })), "the older configuration");
    (net.config, net.keys) = (next.clone(), new_keys);
    net.config.timeout_us += 1;
    assert!(matches!(net.try_start(1), Err(ReplicaError::OtherNetwork { epoch: 1, .. })), "no member has signed it");
    net.config = next;
    net.start(1);
    net.start(0);
    net.submit(20);
    net.settle();
    net.check();
}

#[test]
fn a_member_is_replaced_with_views() {
    for stop_after in [0, 3, 30] {
        replaces_a_member(ProtocolName::Pbft, Duration::from_millis(stop_after));
    }
}

#[test]
fn a_member_is_replaced_with_collectors() {
    for stop_after in [1, 20] {
        replaces_a_member(ProtocolName::Sbft, Duration::from_millis(stop_after));
    }
}

#[test]
fn a_member_is_replaced_with_lanes() {
    for stop_after in [1, 20] {
        replaces_a_member(ProtocolName::Autobahn, Duration::from_millis(stop_after));
    }
}

/// A number that is edited by hand begins no epoch, and a log of another network does not pass.
#[test]
fn an_epoch_without_a_change_is_refused() {
    let folder = folder();
    let mut config = config(4, folder.path());
    config.epoch = 1;
    assert_eq!(config.check(), Err(NetConfigError::Epoch { epoch: 1 }));
    config.epoch = 0;
    let mut net = Net::new(config.clone());
    net.submit(10);
    net.settle();
    let keys = net.keys[0].single().public_keys().to_vec();
    (0..4).for_each(|index| net.stop(index));
    net.config = next(&config, &keys);
    net.config.replicas[3].dir = config.replicas[3].dir.clone();
    assert!(matches!(net.try_start(3), Err(ReplicaError::NoBoundary { epoch: 1 })));
    net.config = config;
    net.config.instance = B256::repeat_byte(6);
    assert!(matches!(net.try_start(3), Err(ReplicaError::Log(LogError::Foreign { .. }))));
}
