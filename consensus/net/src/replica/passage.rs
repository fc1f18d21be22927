//! From one epoch to the next: the proof of where the earlier one has ended, in the folder, from others, and under the members before.
//!
//! ```text
//!  the epoch's last block is committed ─► proof in the folder ─► the replica ends ─► started with the next network:
//!  or: another replica shows the proof ─►        (durable)                           log of the earlier epoch replaced, in one write
//! ```
//!
//! The next start goes on there, whatever ends the process in between.

use super::{error::ReplicaError, keep::Folder, keys::ReplicaKeys, offerer::Offerer, shared::Shared};
use crate::{
    client::{MOST_REPLY, Reply, Request},
    config::{Earlier, EarlierError, NetConfig, NetConfigError},
};
use phalanx_bft::Index;
use phalanx_host::{Anchor, Boundary, Change, HostConfig};
use phalanx_keys::Scheme;
use std::{
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::Duration,
};

/// Patience with a replica whose proof is requested.
const PATIENCE: Duration = Duration::from_secs(3);
/// Pause between two requests, in steps after which it may end.
const STEPS: u32 = 10;
const STEP: Duration = Duration::from_millis(100);

impl From<EarlierError> for ReplicaError {
    fn from(error: EarlierError) -> Self {
        match error {
            EarlierError::Quorum(error) => NetConfigError::from(error).into(),
            EarlierError::Keys(error) => error.into(),
        }
    }
}

/// The block that the epoch of a network begins above, as the folder proves it; `None` in the first epoch.
pub(super) fn beginning(
    config: &NetConfig,
    keys: &ReplicaKeys,
    folder: &Folder,
) -> Result<Option<(Boundary, Anchor)>, ReplicaError> {
    let Some(Earlier { host, scheme }) = config.earlier()? else { return Ok(None) };
    let epoch = config.epoch;
    let boundary = folder.boundary(epoch)?.ok_or(ReplicaError::NoBoundary { epoch })?;
    let (agreed, here) = (boundary.change.network, config.digest(keys.single().public_keys()));
    if agreed != here {
        return Err(ReplicaError::OtherNetwork { epoch, agreed, here });
    }
    let anchor = boundary.check(&host, &*scheme).ok_or(ReplicaError::OtherMembers { epoch })?;
    Ok(Some((boundary, anchor)))
}

/// Boundaries of the folder; refuses an epoch that is over, as one of them proves.
pub(super) fn refuse_over(config: &NetConfig, folder: &Folder) -> Result<Vec<Boundary>, ReplicaError> {
    let kept = folder.boundaries()?;
    let newest = kept.iter().max_by_key(|kept| kept.change.epoch);
    match newest.filter(|newest| newest.change.epoch > config.epoch) {
        Some(newest) => Err(ended(newest)),
        None => Ok(kept),
    }
}

/// The end of a replica in the epoch that this boundary ends.
pub(super) const fn ended(boundary: &Boundary) -> ReplicaError {
    let Change { epoch, network } = boundary.change;
    ReplicaError::Ended { epoch, height: boundary.slot(), network }
}

/// Requests of the other members of a network the proof of where its epoch begins, until one comes, and keeps it in the folder of the replica.
/// `watch` is called all the time, and returns false to stop.
///
/// Returns true if the proof is there.
///
/// # Errors
/// Configuration, keys or folder cannot be used.
pub fn find_beginning(
    config: &NetConfig,
    keys: &ReplicaKeys,
    dir: &Path,
    watch: &mut dyn FnMut() -> bool,
) -> Result<bool, ReplicaError> {
    config.check()?;
    keys.check(config)?;
    let (me, folder) = (keys.single().index(), Folder::open(dir)?);
    let Some(Earlier { host, scheme }) = config.earlier()? else { return Ok(true) };
    loop {
        for (index, member) in (0_u16..).map(Index).zip(&config.replicas).filter(|(index, _)| *index != me) {
            let mut peer = Offerer::new(index, member.clients);
            if !watch() {
                return Ok(false);
            }
            if let Some(boundary) = ask(&mut peer, config.epoch, (&host, &*scheme), watch) {
                folder.keep_boundary(&boundary)?;
                return Ok(true);
            }
        }
        for _ in 0..STEPS {
            if !watch() {
                return Ok(false);
            }
            thread::sleep(STEP);
        }
    }
}

/// Requests of a replica the proof of where an epoch begins, and checks it with the constants of the one before.
pub(super) fn ask(
    peer: &mut Offerer,
    epoch: u64,
    (host, scheme): (&HostConfig, &dyn Scheme),
    watch: &mut dyn FnMut() -> bool,
) -> Option<Boundary> {
    let Ok(Reply::Epoch(found)) = peer.ask(&Request::Epoch(epoch), (MOST_REPLY, PATIENCE), watch) else { return None };
    // A liar's list costs one check.
    let first = found.into_iter().find(|boundary| boundary.change.epoch == epoch);
    first.filter(|boundary| boundary.check(host, scheme).is_some())
}

/// Looks, while a replica makes no progress, whether the others have gone on to the next epoch: they no longer send to it then.
pub(super) fn look(shared: &Shared, config: &NetConfig, host: &HostConfig, scheme: &Arc<dyn Scheme>) {
    let others: Vec<(Index, _)> =
        (0_u16..).map(Index).zip(&config.replicas).filter(|(index, _)| *index != shared.me).collect();
    let goes_on = || !shared.stopped.load(Relaxed);
    let mut seen = None;
    for (index, member) in others.iter().cycle() {
        for _ in 0..STEPS {
            if !goes_on() {
                return;
            }
            thread::sleep(STEP);
        }
        let decided = shared.status.lock().decided;
        if seen.replace(decided) != Some(decided) {
            continue;
        }
        let mut peer = Offerer::new(*index, member.clients);
        if let Some(boundary) = ask(&mut peer, config.epoch + 1, (host, &**scheme), &mut || goes_on()) {
            *shared.passed.lock() = Some(boundary);
            shared.bell.ring();
            return;
        }
    }
}
