//! Joining by a snapshot: a replica without the state, or behind all that others retain, goes on from a state that a quorum has signed.
//!
//! ```text
//!  ask every replica for its snapshots ─► verify certificates ─► the newest one: chunks, each checked under the state root
//!        ▲                                                            │ a liar is named and left, another peer is asked
//!        └────────── no peer is left ◄────────────────────────────────┤
//!                                                                     ▼
//!                       mark removed ◄─ engine settles ◄─ log replaced ◄─ state whole
//! ```
//!
//! A mark in the folder says that state and log may not belong together: it is there before the first of them changes, and goes last.
//! Whatever ends the process in between, the replica joins again, and its log then makes it a silent one.

use super::{error::ReplicaError, keep::Folder, keys::ReplicaKeys, offerer::Offerer, passage};
use crate::{
    client::{MOST_REPLY, Reply, Request},
    config::{NetConfig, NetConfigError},
    log::{Owner, begin_log},
    snapshot::{MOST_OFFERS, Snapshot},
    wire::Identity,
};
use alloy_primitives::Bytes;
use phalanx_bft::Index;
use phalanx_engine_api::{Applied, Offer, Offered};
use phalanx_host::{Anchor, Boundary, Certified, HostConfig, HostRecord};
use phalanx_keys::Scheme;
use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Patience with a peer that is asked for its snapshots: most are on the way to it in a moment.
const PATIENCE: Duration = Duration::from_secs(3);
/// Patience with a chunk, 16 MB at 4 Mbit/s. Servers keep the connections of the others open for longer.
const CHUNK_PATIENCE: Duration = Duration::from_secs(32);
/// Length of a list of snapshots, in bytes, at most.
const MOST_LIST: usize = 1 << 20;
/// Pause before all are asked again, in steps after which the caller may stop.
const PAUSES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);
/// Times that all peers with a snapshot are asked in a row, while none has room to send a chunk.
const MOST_BUSY: usize = 30;
/// Interval at which the caller is notified that no peer serves.
const MINUTE: Duration = Duration::from_secs(60);

/// The engine around a replica that joins. Calls come from one thread, and may take as long as the disk does.
pub trait Restorer {
    /// Takes or refuses a snapshot whose state has the root of this block. Taking it puts an older state away; one that is kept in part
    /// goes on.
    ///
    /// # Errors
    /// The reason, in words, for which no snapshot can be kept.
    fn offer(&mut self, offer: &Offer, anchor: &Anchor) -> Result<Offered, String>;

    /// Returns true if the chunk is not kept yet.
    fn wants(&self, number: u32) -> bool;

    /// Checks a chunk under the root and keeps it.
    ///
    /// # Errors
    /// The reason, in words, for which no snapshot can be kept.
    fn apply(&mut self, number: u32, chunk: &Bytes) -> Result<Applied, String>;

    /// Brings the state of all chunks into its place, unless it is there, with [`Anchor::meta`] as the metadata of its commit.
    ///
    /// # Errors
    /// The reason, in words, for which no snapshot can be kept.
    fn finish(&mut self) -> Result<Applied, String>;

    /// The log goes on from the whole state.
    ///
    /// # Errors
    /// The reason, in words, for which the engine cannot.
    fn settle(&mut self) -> Result<(), String>;
}

/// Progress of a replica that joins by a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Joining {
    /// No peer gives a whole snapshot that a quorum has signed: all are asked again.
    Waiting,
    /// No chunk has come for another minute.
    Unserved,
    /// A chunk is asked for, or waited for.
    Fetching {
        /// Height of the state.
        height: u64,
        /// Number of the chunk.
        chunk: u32,
        /// Number of all chunks.
        chunks: u32,
    },
    /// A replica sent a snapshot or a chunk that is not what it claims to be. Others are asked.
    Lied {
        /// The replica.
        peer: Index,
        /// Height of the state.
        height: u64,
        /// Number of the chunk; `None` for a snapshot without a valid certificate, or with metadata of another state.
        chunk: Option<u32>,
    },
    /// State and log are those after the block at this height.
    Joined {
        /// The height.
        height: u64,
    },
}

/// Returns true if a replica has to join before it can start: an earlier [`join`] did not end.
#[must_use]
pub fn is_joining(dir: &Path) -> bool {
    Folder::is_joining(dir)
}

/// Replaces state and log of a replica that is down by a snapshot of others. The replica is silent then until nothing that it may have
/// said before matters. Every step is `watch`ed, which returns false to stop, and then always; joining goes on there another time.
///
/// Returns the height of the state, `None` if it was stopped.
///
/// # Errors
/// Configuration, keys or files cannot be used, or the engine cannot keep a snapshot.
pub fn join(
    config: &NetConfig,
    keys: &ReplicaKeys,
    dir: &Path,
    restorer: &mut dyn Restorer,
    watch: &mut dyn FnMut(Joining) -> bool,
) -> Result<Option<u64>, ReplicaError> {
    config.check()?;
    keys.check(config)?;
    let (me, identity) = (keys.single().index(), Identity::new(keys.single().clone(), config.authentication)?);
    let (host, scheme) = (config.host(0).map_err(NetConfigError::from)?, keys.scheme(&identity)?);
    let folder = Folder::open(dir)?;
    passage::refuse_over(config, &folder)?;
    let beginning = passage::beginning(config, keys, &folder)?;
    let owner = Owner::new(config, me);
    // A new member that has not started yet has said nothing.
    let new = owner.as_ref().filter(|_| beginning.is_some()).map_or(Ok(false), |owner| folder.has_token(owner))?;
    let members = (0_u16..).map(Index).zip(&config.replicas).filter(|(index, _)| *index != me);
    let peers = members.map(|(index, member)| Offerer::new(index, member.clients)).collect();
    let since = Instant::now();
    let mut joiner = Joiner { host, scheme: &*scheme, beginning, peers, turn: 0, since, restorer, watch };
    loop {
        // What others offer behind a change of members is of the next epoch.
        if let Some(boundary) = joiner.over(config.epoch + 1) {
            folder.keep_boundary(&boundary)?;
            return Err(passage::ended(&boundary));
        }
        match joiner.round(&folder)? {
            Round::Stopped => return Ok(None),
            Round::Nothing => {}
            Round::Whole(anchor) => {
                // None of these records is the protocol's.
                let boundary = joiner.beginning.as_ref().map(|(boundary, _)| boundary);
                let records = HostRecord::<u64>::joined(boundary, &anchor, !new).into_iter();
                let records = records.map(|record| alloy_rlp::encode(record).into());
                let records: Vec<Bytes> = owner.iter().map(Owner::record).chain(records).collect();
                begin_log(&folder.log(), &records)?;
                folder.check_place(true)?;
                joiner.restorer.settle().map_err(ReplicaError::Snapshot)?;
                folder.take_token()?;
                folder.end_joining()?;
                let height = anchor.tip().slot;
                // It is done, whatever the caller says.
                (joiner.watch)(Joining::Joined { height });
                return Ok(Some(height));
            }
        }
    }
}

/// A snapshot that a quorum has signed, and the places of the peers that have it.
struct Found {
    snapshot: Snapshot,
    anchor: Anchor,
    peers: Vec<usize>,
}

/// Result of asking all peers once.
enum Round {
    /// No snapshot is whole.
    Nothing,
    Stopped,
    Whole(Box<Anchor>),
}

struct Joiner<'a> {
    host: HostConfig,
    scheme: &'a dyn Scheme,
    /// Block that the epoch begins above: the members before have signed its state.
    beginning: Option<(Boundary, Anchor)>,
    peers: Vec<Offerer>,
    /// Number of chunks that have come: peers take turns.
    turn: usize,
    /// Time of the last chunk, or of the last notice that none comes.
    since: Instant,
    restorer: &'a mut dyn Restorer,
    watch: &'a mut dyn FnMut(Joining) -> bool,
}

impl Joiner<'_> {
    /// Proof of a peer that this epoch is over and the next one begins.
    fn over(&mut self, next: u64) -> Option<Boundary> {
        let Self { host, scheme, peers, watch, .. } = self;
        peers.iter_mut().find_map(|peer| passage::ask(peer, next, (host, *scheme), &mut || watch(Joining::Waiting)))
    }

    /// Asks all peers, and fetches the newest snapshot that can be had.
    fn round(&mut self, folder: &Folder) -> Result<Round, ReplicaError> {
        let Some(found) = self.find() else { return Ok(Round::Stopped) };
        for one in found {
            folder.begin_joining()?;
            match self.fetch(one)? {
                Round::Nothing => {}
                other => return Ok(other),
            }
        }
        if self.since.elapsed() >= MINUTE {
            self.since = Instant::now();
            if !(self.watch)(Joining::Unserved) {
                return Ok(Round::Stopped);
            }
        }
        for _ in 0..PAUSES {
            if !(self.watch)(Joining::Waiting) {
                return Ok(Round::Stopped);
            }
            thread::sleep(PAUSE);
        }
        Ok(Round::Nothing)
    }

    /// Snapshots that a quorum has signed, the newest first; `None` if the caller stops. There is none before f+1 peers have answered: one
    /// of them is correct, so that a liar's old state is not the newest.
    fn find(&mut self) -> Option<Vec<Found>> {
        let (mut found, mut answered): (Vec<Found>, usize) = (Vec::new(), 0);
        for at in 0..self.peers.len() {
            if !(self.watch)(Joining::Waiting) {
                return None;
            }
            // A peer that is down or busy is asked again in the next round.
            let watch = &mut || (self.watch)(Joining::Waiting);
            let reply = self.peers[at].ask(&Request::Snapshots, (MOST_LIST, PATIENCE), watch);
            let Ok(Reply::Snapshots(all)) = reply else { continue };
            answered += 1;
            for snapshot in all.into_iter().take(MOST_OFFERS) {
                if let Some(known) = found.iter_mut().find(|known| known.snapshot.offer() == snapshot.offer()) {
                    if !known.peers.contains(&at) {
                        known.peers.push(at);
                    }
                    continue;
                }
                // A replica that is behind the beginning of the epoch does not lie.
                let begins = self.beginning.as_ref().map_or(0, |(boundary, _)| boundary.slot());
                if snapshot.block.slot < begins {
                    continue;
                }
                match self.check(&snapshot.block) {
                    Some(anchor) => found.push(Found { snapshot, anchor, peers: vec![at] }),
                    None if self.lied(at, snapshot.block.slot, None) => {}
                    None => return None,
                }
            }
        }
        if answered < self.host.quorums.one_correct() {
            found.clear();
        }
        found.sort_by_key(|found| core::cmp::Reverse(found.anchor.tip().slot));
        Some(found)
    }

    /// Checks a block under the members of this epoch, or as the last one of the epoch before.
    fn check(&self, block: &Certified) -> Option<Anchor> {
        match &self.beginning {
            Some((Boundary { block: known, .. }, anchor)) if known.slot == block.slot => {
                // The members before have signed it more than once.
                let certificate = known.certificate.clone();
                (*known == Certified { certificate, ..block.clone() }).then(|| anchor.clone())
            }
            _ => block.clone().check(&self.host, self.scheme),
        }
    }

    fn lied(&mut self, at: usize, height: u64, chunk: Option<u32>) -> bool {
        let peer = self.peers[at].index;
        (self.watch)(Joining::Lied { peer, height, chunk })
    }

    /// The peer that is asked for the next chunk, of those that have it, after so many that were busy.
    fn next(&self, peers: &[usize], busy: usize) -> Option<usize> {
        let mut order = peers.to_vec();
        order.rotate_left(self.turn % peers.len().max(1));
        order.sort_by_key(|at| self.peers[*at].failures);
        order.get(busy % peers.len().max(1)).copied()
    }

    /// Removes a peer from those of this round. In later ones it comes behind others.
    fn failed(&mut self, at: usize, peers: &mut Vec<usize>) {
        self.peers[at].failures = self.peers[at].failures.saturating_add(1);
        peers.retain(|other| *other != at);
    }

    /// Fetches all chunks of a snapshot from the peers that have it, each in turn.
    fn fetch(&mut self, Found { snapshot, anchor, mut peers }: Found) -> Result<Round, ReplicaError> {
        let (height, chunks) = (anchor.tip().slot, snapshot.chunks);
        let refused = match self.restorer.offer(&snapshot.offer(), &anchor).map_err(ReplicaError::Snapshot)? {
            Offered::Accepted => false,
            // A newer version of the program makes it.
            Offered::OtherFormat => true,
            Offered::Lie => {
                if !peers.iter().all(|at| self.lied(*at, height, None)) {
                    return Ok(Round::Stopped);
                }
                true
            }
            Offered::Unable => return Err(ReplicaError::Snapshot("the engine can keep none".into())),
        };
        if refused {
            return Ok(Round::Nothing);
        }
        let (mut number, mut busy) = (0, 0);
        loop {
            let applied = if number == chunks {
                match self.restorer.finish().map_err(ReplicaError::Snapshot)? {
                    Applied::Kept => return Ok(Round::Whole(Box::new(anchor))),
                    other => other,
                }
            } else if self.restorer.wants(number) {
                let step = Joining::Fetching { height, chunk: number, chunks };
                if !(self.watch)(step) {
                    return Ok(Round::Stopped);
                }
                let Some(at) = self.next(&peers, busy) else { return Ok(Round::Nothing) };
                let (request, watch) = (Request::Chunk(height, number), &mut || (self.watch)(step));
                let chunk = match self.peers[at].ask(&request, (MOST_REPLY, CHUNK_PATIENCE), watch) {
                    Ok(Reply::Chunk(chunk)) if !chunk.is_empty() => chunk,
                    // It is busy, or has a newer snapshot meanwhile.
                    Ok(Reply::Chunk(_)) => {
                        busy += 1;
                        if busy >= MOST_BUSY * peers.len() {
                            return Ok(Round::Nothing);
                        }
                        if busy % peers.len() == 0 {
                            thread::sleep(PAUSE);
                        }
                        continue;
                    }
                    _ => {
                        self.failed(at, &mut peers);
                        continue;
                    }
                };
                (self.turn, busy) = (self.turn.wrapping_add(1), 0);
                let applied = self.restorer.apply(number, &chunk).map_err(ReplicaError::Snapshot)?;
                if applied == Applied::Kept {
                    self.since = Instant::now();
                }
                if applied == Applied::Bad {
                    self.failed(at, &mut peers);
                    if !self.lied(at, height, Some(number)) {
                        return Ok(Round::Stopped);
                    }
                }
                applied
            } else {
                Applied::Kept
            };
            match applied {
                Applied::Kept => number += 1,
                Applied::Bad => {}
                Applied::Again => number = 0,
                Applied::Unable => return Err(ReplicaError::Snapshot("the engine can keep none".into())),
            }
        }
    }
}
