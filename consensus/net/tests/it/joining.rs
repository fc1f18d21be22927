//! Joining by a snapshot: liars are named, what is interrupted goes on, and whatever log was there goes.

use crate::{
    kit::{Net, chunk_of, config, folder},
    proxy::{Change, relay},
};
use alloy_primitives::Bytes;
use phalanx_engine_api::{Applied, Offer, Offered};
use phalanx_net::{
    Anchor, Beginning, Joining, LogError, NetConfig, ProtocolName, ReplicaError, Restorer, is_joining, join,
};
use std::{
    collections::BTreeSet,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// First bytes of replies.
const SNAPSHOTS: u8 = 4;
const CHUNK: u8 = 5;

/// An engine that keeps chunks in memory: those of one height.
#[derive(Default)]
pub(crate) struct Chunks {
    height: u64,
    kept: BTreeSet<u32>,
    whole: bool,
    settled: bool,
}

impl Restorer for Chunks {
    fn offer(&mut self, offer: &Offer, anchor: &Anchor) -> Result<Offered, String> {
        assert_eq!((offer.height, anchor.tip().slot), (offer.height, offer.height), "the certificate is of the state");
        if offer.metadata[..] != offer.height.to_be_bytes() {
            return Ok(Offered::Lie);
        }
        if self.height != offer.height {
            *self = Self { height: offer.height, ..Self::default() };
        }
        Ok(Offered::Accepted)
    }

    fn wants(&self, number: u32) -> bool {
        !self.kept.contains(&number)
    }

    fn apply(&mut self, number: u32, chunk: &Bytes) -> Result<Applied, String> {
        if *chunk != chunk_of(self.height, number) {
            return Ok(Applied::Bad);
        }
        self.kept.insert(number);
        Ok(Applied::Kept)
    }

    fn finish(&mut self) -> Result<Applied, String> {
        self.whole = true;
        Ok(Applied::Kept)
    }

    fn settle(&mut self) -> Result<(), String> {
        self.settled = self.whole;
        Ok(())
    }
}

/// A network at rest without replica 3, in which all others have a snapshot of the newest height.
fn network(protocol: ProtocolName) -> (Net, tempfile::TempDir) {
    let folder = folder();
    let mut config = config(4, folder.path());
    (config.protocol, config.snapshot_every) = (protocol, 1);
    let mut net = Net::new(config);
    let is_common = |net: &Net| {
        let newest = |index: usize| net.replica(index).status().snapshots.last().copied();
        net.audit.settled() > 0 && (0..3).all(|index| newest(index) == Some(net.audit.settled()))
    };
    // A replica that a checkpoint alone has certified the newest height for offers an older one.
    for _ in 0..200 {
        net.submit(10);
        net.settle();
        net.listen(Duration::from_millis(100));
        if is_common(&net) {
            break;
        }
    }
    assert!(is_common(&net), "no common height");
    net.stop(3);
    (net, folder)
}

/// The configuration as replica 3 has it, with relays before some replicas' clients.
fn relayed(net: &Net, relays: Vec<(usize, Change)>) -> NetConfig {
    let mut config = net.config.clone();
    for (index, change) in relays {
        config.replicas[index].clients = relay(config.replicas[index].clients, change);
    }
    config
}

/// Changes one byte of each frame of a kind, at this part of its length.
fn spoil(kind: u8, part: usize) -> Change {
    Box::new(move |body| {
        if body[0] == kind {
            let at = (body.len() * part / 8).min(body.len() - 1);
            body[at] ^= 1;
        }
        true
    })
}

fn comes_back(protocol: ProtocolName) {
    let (mut net, _folder) = network(protocol);
    // The first replica that is asked sends a chunk that is none.
    let is_spoilt = Arc::new(AtomicBool::new(false));
    let once = |index: usize| -> (usize, Change) {
        let (mut spoil, is_spoilt) = (spoil(CHUNK, 8), Arc::clone(&is_spoilt));
        (index, Box::new(move |body: &mut Vec<u8>| body[0] != CHUNK || is_spoilt.swap(true, Relaxed) || spoil(body)))
    };
    let config = relayed(&net, (0..3).map(once).collect());
    let (dir, keys) = (net.config.replicas[3].dir.clone(), net.keys[3].clone());
    let mut engine = Chunks::default();
    // It is stopped once a chunk is there.
    let (mut steps, mut stopped) = (Vec::new(), false);
    let mut watch = |step| {
        steps.push(step);
        stopped |= matches!(step, Joining::Fetching { chunk: 1, .. });
        !stopped
    };
    assert_eq!(join(&config, &keys, &dir, &mut engine, &mut watch).expect("files"), None);
    assert!(is_joining(&dir) && engine.kept == [0].into(), "{steps:?}");
    let height = engine.height;
    let lies = |step: &&Joining| matches!(step, Joining::Lied { height: of, chunk: Some(0), .. } if *of == height);
    assert_eq!(steps.iter().filter(lies).count(), 1, "{steps:?}");
    let refused = net.try_start(3);
    assert!(matches!(refused, Err(ReplicaError::Behind { .. })), "state and log may differ: {refused:?}");
    // What is there is not fetched again.
    let mut fetched = Vec::new();
    let mut watch = |step| {
        fetched.extend(if let Joining::Fetching { chunk, .. } = step { Some(chunk) } else { None });
        true
    };
    assert_eq!(join(&config, &keys, &dir, &mut engine, &mut watch).expect("files"), Some(height));
    assert!(engine.settled && !is_joining(&dir) && !fetched.contains(&0), "{fetched:?}");
    // The state is that of a replica that is at this height.
    net.borrow_state(3, 1);
    net.start(3);
    assert!(net.replica(3).status().silent, "it may have voted");
    net.submit(20);
    net.settle();
    net.check();
}

#[test]
fn a_replica_of_pbft_joins_between_liars_and_interruptions() {
    comes_back(ProtocolName::Pbft);
}

#[test]
fn a_replica_of_sbft_joins_between_liars_and_interruptions() {
    comes_back(ProtocolName::Sbft);
}

/// Replicas that have no room to send a chunk, twice each: they are asked again, and no other snapshot is looked for.
#[test]
fn busy_replicas_are_asked_again() {
    let (net, _folder) = network(ProtocolName::Pbft);
    let busy = |index: usize| -> (usize, Change) {
        let mut left = 2;
        let change = move |body: &mut Vec<u8>| {
            if body[0] == CHUNK && left > 0 {
                left -= 1;
                // An empty string behind the kind.
                *body = vec![CHUNK, 0x80];
            }
            true
        };
        (index, Box::new(change))
    };
    let config = relayed(&net, (0..3).map(busy).collect());
    let (mut engine, mut steps) = (Chunks::default(), Vec::new());
    let mut watch = |step| {
        steps.push(step);
        true
    };
    let joined = join(&config, &net.keys[3], &net.config.replicas[3].dir, &mut engine, &mut watch).expect("files");
    assert_eq!(joined, Some(engine.height));
    let first = steps.iter().position(|step| matches!(step, Joining::Fetching { .. })).expect("chunks");
    assert!(!steps[first..].contains(&Joining::Waiting), "{steps:?}");
}

/// A certificate that no quorum has signed, and metadata of another state: each names its sender, and a third replica serves.
#[test]
fn snapshots_without_a_certificate_name_their_senders() {
    let (net, _folder) = network(ProtocolName::Pbft);
    let config = relayed(&net, vec![(0, spoil(SNAPSHOTS, 6)), (1, spoil(SNAPSHOTS, 8))]);
    let mut liars = BTreeSet::new();
    let mut watch = |step| {
        liars.extend(if let Joining::Lied { peer, chunk: None, .. } = step { Some(peer.0) } else { None });
        true
    };
    let mut engine = Chunks::default();
    let joined = join(&config, &net.keys[3], &net.config.replicas[3].dir, &mut engine, &mut watch).expect("files");
    assert_eq!((joined, liars), (Some(engine.height), [0, 1].into()));
}

/// One peer alone may offer an old state: nothing is fetched, and nothing is put away.
#[test]
fn one_peer_is_not_enough() {
    let (mut net, _folder) = network(ProtocolName::Pbft);
    net.stop(0);
    net.stop(1);
    let dir = net.config.replicas[3].dir.clone();
    let mut steps = Vec::new();
    let mut watch = |step| {
        steps.push(step);
        steps.len() < 30
    };
    let joined = join(&net.config, &net.keys[3], &dir, &mut Chunks::default(), &mut watch).expect("files");
    assert_eq!((joined, is_joining(&dir)), (None, false));
    assert!(steps.iter().all(|step| *step == Joining::Waiting), "{steps:?}");
}

/// A folder with the log of another replica, and one whose log is damaged: neither starts, both join, and the log is kept beside.
#[test]
fn foreign_and_damaged_logs_make_room_and_are_kept() {
    let (mut net, _folder) = network(ProtocolName::Pbft);
    let (dir, keys) = (net.config.replicas[3].dir.clone(), net.keys[3].clone());
    net.stop(2);
    let foreign = fs::read(net.config.replicas[2].dir.join("log")).expect("a log");
    net.start(2);
    let mut damaged = fs::read(dir.join("log")).expect("a log");
    // In the first group, behind three pages: the last one may be torn.
    damaged[3 * 4_096 + 20] ^= 1;
    for log in [foreign, damaged] {
        fs::write(dir.join("log"), &log).expect("room");
        let refused = net.try_begin(3, Beginning::Silent);
        assert!(matches!(refused, Err(ReplicaError::Log(LogError::Foreign { .. } | LogError::Wal(_)))), "{refused:?}");
        let mut engine = Chunks::default();
        let joined = join(&net.config, &keys, &dir, &mut engine, &mut |_| true).expect("files");
        assert_eq!(joined, Some(engine.height));
        assert_eq!(fs::read(dir.join("log.before-snapshot")).expect("it is kept"), log);
    }
    net.borrow_state(3, 1);
    net.start(3);
    net.submit(10);
    net.settle();
}
