//! Snapshots of the laboratory's engine, whose blocks are transactions alone: for others, and taken from others.

use super::{engine::store, file::NetworkFile};
use parking_lot::Mutex;
use phalanx::{
    Service,
    alloy::primitives::{B256, Bytes},
    api::{Applied, Offer, Offered, ViewAt},
    contents,
    merkle::{self, Exporter, Restore, StoreConfig, snapshot::Manifest},
    plain_payload,
};
use phalanx_net::{Anchor, Joining, ReplicaKeys, Restorer, Snapshots};
use std::{
    collections::VecDeque,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Format of the chunks: the store's canonical snapshots, with their manifest as metadata.
const FORMAT: u32 = 1;
/// Snapshots that are kept, the newest: as many as a replica offers.
const MOST: usize = 2;

/// States of a service for other replicas.
#[derive(Debug)]
pub(super) struct States {
    service: Arc<Service>,
    all: Mutex<VecDeque<(u64, Arc<Exporter>)>>,
}

impl States {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self { service, all: Mutex::default() }
    }
}

impl Snapshots for States {
    fn take(&self, height: u64) -> Result<Offer, String> {
        let state = self.service.snapshot(ViewAt::Height(height)).map_err(|error| error.to_string())?;
        let exporter = state.exporter().map_err(|error| error.to_string())?;
        let manifest = exporter.manifest();
        let chunks = u32::try_from(manifest.chunks()).map_err(|_| "the state has too many chunks".to_owned())?;
        let metadata = Bytes::copy_from_slice(&manifest.encode());
        let mut all = self.all.lock();
        all.push_back((height, Arc::new(exporter)));
        let over = all.len().saturating_sub(MOST);
        all.drain(..over);
        Ok(Offer { height, format: FORMAT, chunks, metadata })
    }

    fn chunk(&self, height: u64, _format: u32, number: u32) -> Option<Bytes> {
        let found = self.all.lock().iter().find(|(at, _)| *at == height).map(|(_, exporter)| Arc::clone(exporter));
        let exporter = found.filter(|exporter| u64::from(number) < exporter.manifest().chunks())?;
        exporter.chunk(number.into()).ok().map(Bytes::from)
    }
}

/// The state that a replica takes from others, until it is whole.
struct Taker {
    config: StoreConfig,
    state: PathBuf,
    restoring: Option<(Restore, Vec<u8>)>,
}

impl Restorer for Taker {
    fn offer(&mut self, offer: &Offer, anchor: &Anchor) -> Result<Offered, String> {
        if offer.format != FORMAT {
            return Ok(Offered::OtherFormat);
        }
        let root = B256::new(anchor.result().state_root);
        // An older state goes for a snapshot of this one alone.
        let is_right = Manifest::decode(&offer.metadata).is_ok_and(|manifest| {
            let claimed = (manifest.height, manifest.root, manifest.chunks());
            claimed == (offer.height, root.0, offer.chunks.into())
        });
        if !is_right {
            return Ok(Offered::Lie);
        }
        // The handle of an earlier one locks the folder.
        self.restoring = None;
        put_away(&self.state).map_err(|error| format!("{}: {error}", self.state.display()))?;
        match Restore::begin(self.config.clone(), &offer.metadata, offer.height, &root.0) {
            Ok(restore) => {
                let payload = plain_payload(&anchor.env(), &anchor.result(), anchor.meta());
                self.restoring = Some((restore, payload));
                Ok(Offered::Accepted)
            }
            Err(merkle::Error::Snapshot(_) | merkle::Error::Format { .. }) => Ok(Offered::Lie),
            Err(error) => Err(error.to_string()),
        }
    }

    fn wants(&self, number: u32) -> bool {
        let restore = self.restoring.as_ref().map(|(restore, _)| restore);
        restore.is_some_and(|restore| restore.missing().any(|missing| missing == u64::from(number)))
    }

    fn apply(&mut self, number: u32, chunk: &Bytes) -> Result<Applied, String> {
        let Some((restore, _)) = &mut self.restoring else { return Ok(Applied::Unable) };
        match restore.accept(number.into(), chunk) {
            Ok(()) => Ok(Applied::Kept),
            Err(merkle::Error::Snapshot(_)) => Ok(Applied::Bad),
            Err(error) => Err(error.to_string()),
        }
    }

    fn finish(&mut self) -> Result<Applied, String> {
        let Some((restore, payload)) = self.restoring.take() else { return Ok(Applied::Unable) };
        restore.finish(payload).map(|_| Applied::Kept).map_err(|error| error.to_string())
    }

    fn settle(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Removes a folder in one step: a crash leaves all of it under its name, or nothing.
fn put_away(folder: &Path) -> std::io::Result<()> {
    let old = folder.with_extension("old");
    let remove = || match fs::remove_dir_all(&old) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    remove()?;
    match fs::rename(folder, &old) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        renamed => renamed.and_then(|()| remove()),
    }
}

/// Replaces state and log of a replica by a snapshot of others. Returns false if `stopped` does before it is there.
pub(super) fn join(
    file: &NetworkFile,
    keys: &ReplicaKeys,
    folder: &Path,
    stopped: impl Fn() -> bool,
) -> anyhow::Result<bool> {
    fs::create_dir_all(folder)?;
    let config = store(folder, &file.network).with_contents(contents());
    let mut taker = Taker { config, state: folder.join("state"), restoring: None };
    let mut ended = false;
    let mut watch = |step: Joining| {
        match step {
            Joining::Lied { peer, height, chunk } => {
                let what = chunk.map_or_else(|| "snapshot".into(), |chunk| format!("chunk {chunk}"));
                eprintln!("phalanx: {peer} sends a wrong {what} of height {height}: others are asked");
            }
            Joining::Unserved => {
                eprintln!("phalanx: no replica offers a snapshot that can be joined by: all are asked again")
            }
            Joining::Joined { height } => eprintln!("phalanx: a snapshot of height {height} is the state now"),
            _ => {}
        }
        // A command to stop comes once.
        ended |= stopped();
        !ended
    };
    Ok(phalanx_net::join(&file.network, keys, folder, &mut taker, &mut watch)?.is_some())
}
