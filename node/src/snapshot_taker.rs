//! The snapshot that a node without a chain takes from others: chunks, the state in its place, the anchor of its blocks.

use crate::{
    chain::{AnchorFiles, Metadata, engine_store, make_folder},
    config::NodeConfig,
    error::NodeError,
    store::put_aside,
    taken::FORMAT,
};
use phalanx::{
    Anchored,
    alloy::primitives::{B256, Bytes},
    api::{Applied, CommitMeta, Offer, Offered},
    chain_digest,
    merkle::{self, Restore, StoreConfig},
};
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// The snapshot that a node takes, until its chain is opened behind it.
pub(crate) struct SnapshotTaker {
    config: StoreConfig,
    files: AnchorFiles,
    folder: PathBuf,
    chain: (u64, B256),
    stage: Stage,
}

/// Progress of the snapshot.
#[expect(clippy::large_enum_variant, reason = "there is one per node")]
enum Stage {
    /// No snapshot is accepted.
    Idle,
    /// Chunks come.
    Restoring(Box<Restoring>),
    /// The state of this snapshot is in its place.
    Whole { root: B256, metadata: Metadata },
}

struct Restoring {
    root: B256,
    metadata: Metadata,
    anchored: Anchored,
    meta: CommitMeta,
    restore: Restore,
}

impl core::fmt::Debug for SnapshotTaker {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SnapshotTaker").field("joined", &self.joined()).finish_non_exhaustive()
    }
}

impl SnapshotTaker {
    /// Continues what the last process has left in the folder of these settings.
    pub(crate) fn new(config: &NodeConfig) -> Result<Self, NodeError> {
        let folder = config.store.folder();
        make_folder(folder)?;
        let digest = chain_digest(&config.genesis).map_err(|error| NodeError::Chain(error.to_string()))?;
        let chain = (config.genesis.config.chain_id, digest);
        let files = AnchorFiles::new(folder);
        let store = engine_store(config).with_contents(phalanx::contents());
        let state = folder.join("state");
        let stage = match files.read_joining()? {
            // The state gets its place as a whole, so it is whole if it is there.
            Some((root, metadata)) if !is_empty(&state)? => {
                let held = merkle::Store::open(store.clone()).map_err(|error| NodeError::Engine(error.into()))?;
                if (held.height(), held.root()) != (Some(metadata.height()), root.0) {
                    let what = "not the state of the snapshot that the node joins with: empty the node's folder and join again";
                    return Err(NodeError::Setting(format!("{}: {what}", state.display())));
                }
                Stage::Whole { root, metadata }
            }
            _ => Stage::Idle,
        };
        Ok(Self { config: store, files, folder: folder.to_owned(), chain, stage })
    }

    /// Height and state root of the whole snapshot.
    pub(crate) const fn joined(&self) -> Option<(u64, B256)> {
        match &self.stage {
            Stage::Whole { root, metadata } => Some((metadata.height(), *root)),
            Stage::Idle | Stage::Restoring(_) => None,
        }
    }

    /// Takes or refuses a snapshot whose state must have this root. The commit of its block gets `meta`. One that is there in part or as a
    /// whole goes on.
    pub(crate) fn offer(&mut self, offer: &Offer, root: B256, meta: CommitMeta) -> Result<Offered, NodeError> {
        if offer.format != FORMAT {
            return Ok(Offered::OtherFormat);
        }
        let checked = Metadata::decode(&offer.metadata).and_then(|metadata| {
            let (manifest, anchored) = metadata.check(self.chain, root)?;
            let is_same = (metadata.height(), manifest.chunks()) == (offer.height, offer.chunks.into());
            is_same.then_some((metadata, anchored))
        });
        let Some((metadata, anchored)) = checked else { return Ok(Offered::Lie) };
        if !matches!(&self.stage, Stage::Whole { root: known, metadata: of } if (*known, of) == (root, &metadata)) {
            self.begin(root, metadata, anchored, meta)?;
        }
        Ok(Offered::Accepted)
    }

    /// Begins the snapshot, or goes on with it, after its metadata were checked.
    fn begin(&mut self, root: B256, metadata: Metadata, anchored: Anchored, meta: CommitMeta) -> Result<(), NodeError> {
        // The handle of an earlier one locks the folder.
        self.stage = Stage::Idle;
        let known = self.files.read_joining()?;
        if known.as_ref() != Some(&(root, metadata.clone())) {
            // Each goes in one step: after a death the state is whole, and that of the noted snapshot, or absent.
            put_aside(&self.folder.join("blocks"))?;
            put_aside(&self.folder.join("state"))?;
            self.files.begin(root, &metadata)?;
        }
        let restore = Restore::begin(self.config.clone(), &metadata.manifest, metadata.height(), &root.0);
        let restore = restore.map_err(|error| NodeError::Engine(error.into()))?;
        self.stage = Stage::Restoring(Box::new(Restoring { root, metadata, anchored, meta, restore }));
        Ok(())
    }

    /// Checks a chunk and keeps it. The last one brings the state into its place.
    pub(crate) fn apply(&mut self, number: u32, chunk: &Bytes) -> Result<Applied, NodeError> {
        let failed = |error: merkle::Error| NodeError::Engine(error.into());
        let restoring = match &mut self.stage {
            Stage::Whole { .. } => return Ok(Applied::Kept),
            Stage::Idle => return Ok(Applied::Unable),
            Stage::Restoring(restoring) => restoring,
        };
        let number = u64::from(number);
        // Chunks of the last process may come again.
        if number >= restoring.restore.manifest().chunks() || restoring.is_missing(number) {
            match restoring.restore.accept(number, chunk) {
                Err(merkle::Error::Snapshot(why)) => {
                    tracing::warn!(%why, number, "a chunk is refused");
                    return Ok(Applied::Bad);
                }
                other => other.map_err(failed)?,
            }
        }
        if restoring.restore.missing().next().is_some() {
            return Ok(Applied::Kept);
        }
        let Stage::Restoring(restoring) = core::mem::replace(&mut self.stage, Stage::Idle) else {
            return Ok(Applied::Unable);
        };
        let Restoring { root, metadata, anchored, meta, restore } = *restoring;
        match restore.finish(metadata.anchor().payload(&anchored, meta.clone())) {
            Ok(store) => drop(store),
            // A chunk has changed on the disk: it is missing again.
            Err(merkle::Error::Snapshot(why)) => {
                tracing::warn!(%why, "a kept chunk is lost");
                self.begin(root, metadata, anchored, meta)?;
                return Ok(Applied::Again);
            }
            Err(error) => return Err(failed(error)),
        }
        tracing::info!(height = metadata.height(), %root, "the snapshot is whole");
        self.stage = Stage::Whole { root, metadata };
        Ok(Applied::Kept)
    }

    /// Returns true if a chunk is not kept yet.
    pub(crate) fn wants(&self, number: u32) -> bool {
        match &self.stage {
            Stage::Restoring(restoring) => restoring.is_missing(number.into()),
            Stage::Idle | Stage::Whole { .. } => false,
        }
    }

    /// Makes sure that the state is in its place: a process may have ended when all chunks were kept.
    pub(crate) fn finish(&mut self) -> Result<Applied, NodeError> {
        self.apply(0, &Bytes::new())
    }

    /// Lets the chain be opened: behind the whole snapshot, or without one at its genesis.
    pub(crate) fn settle(&mut self) -> Result<(), NodeError> {
        match core::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Whole { .. } => self.files.settle(),
            Stage::Idle | Stage::Restoring(_) => self.files.forget(),
        }
    }
}

impl Restoring {
    fn is_missing(&self, number: u64) -> bool {
        self.restore.missing().any(|missing| missing == number)
    }
}

/// True if a folder is absent or has nothing in it.
pub(crate) fn is_empty(folder: &Path) -> Result<bool, NodeError> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(NodeError::Setting(format!("{}: {error}", folder.display()))),
    }
}
