//! A node without a chain: it takes a snapshot that CometBFT offers, and opens the chain behind it.

use crate::{
    chain::{AnchorFiles, Metadata, engine_store, make_folder},
    config::NodeConfig,
    error::NodeError,
    store::put_aside,
    taken::FORMAT,
    validator::Validator,
};
use crossbeam_channel::Sender;
use phalanx::{
    Anchored,
    alloy::primitives::{B256, Bytes},
    chain_digest,
    merkle::{self, Restore, StoreConfig},
};
use phalanx_abci::{Applied, Joiner, Offer, Offered};
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// Opens the chain of the settings, and everything that serves it.
type Open = Box<dyn FnMut() -> Result<Validator, NodeError> + Send>;

/// A node that joins.
pub(crate) struct Join {
    config: StoreConfig,
    files: AnchorFiles,
    folder: PathBuf,
    chain: (u64, B256),
    stage: Stage,
    open: Open,
    ended: Sender<NodeError>,
}

/// Progress of the node.
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
    restore: Restore,
}

impl core::fmt::Debug for Join {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Join").field("joined", &self.joined()).finish_non_exhaustive()
    }
}

impl Join {
    /// True if the node of these settings has no chain yet, or only a snapshot from which it has not gone on.
    pub(crate) fn is_due(config: &NodeConfig) -> Result<bool, NodeError> {
        let wants = config.comet.is_some_and(|comet| comet.state_sync);
        let files = AnchorFiles::new(config.store.folder());
        Ok(files.read_joining()?.is_some() || wants && is_empty(&config.store.folder().join("state"))?)
    }

    /// Creates the node as the last process has left it.
    pub(crate) fn new(config: &NodeConfig, open: Open, ended: Sender<NodeError>) -> Result<Self, NodeError> {
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
        Ok(Self { config: store, files, folder: folder.to_owned(), chain, stage, open, ended })
    }

    /// Begins the snapshot, or goes on with it, after its metadata were checked.
    fn begin(&mut self, root: B256, metadata: Metadata, anchored: Anchored) -> Result<(), NodeError> {
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
        self.stage = Stage::Restoring(Box::new(Restoring { root, metadata, anchored, restore }));
        Ok(())
    }

    fn take(&mut self, number: u32, chunk: &Bytes) -> Result<Applied, NodeError> {
        let failed = |error: merkle::Error| NodeError::Engine(error.into());
        let restoring = match &mut self.stage {
            Stage::Whole { .. } => return Ok(Applied::Kept),
            Stage::Idle => return Ok(Applied::Unable),
            Stage::Restoring(restoring) => restoring,
        };
        let (number, chunks) = (u64::from(number), restoring.restore.manifest().chunks());
        // Chunks of the last process are asked for again.
        if number >= chunks || restoring.restore.missing().any(|missing| missing == number) {
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
        let Restoring { root, metadata, anchored, restore } = *restoring;
        match restore.finish(metadata.anchor().payload(&anchored)) {
            Ok(store) => drop(store),
            // A chunk has changed on the disk: it is missing again.
            Err(merkle::Error::Snapshot(why)) => {
                tracing::warn!(%why, "a kept chunk is lost");
                self.begin(root, metadata, anchored)?;
                return Ok(Applied::Again);
            }
            Err(error) => return Err(failed(error)),
        }
        tracing::info!(height = metadata.height(), %root, "the snapshot is whole");
        self.stage = Stage::Whole { root, metadata };
        Ok(Applied::Kept)
    }

    fn go_on(&mut self) -> Result<Validator, NodeError> {
        match core::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Whole { .. } => self.files.settle()?,
            // CometBFT begins at the genesis: no snapshot is wanted.
            Stage::Idle | Stage::Restoring(_) => self.files.forget()?,
        }
        (self.open)()
    }

    fn tell(&self, why: NodeError) {
        tracing::error!(%why, "the node cannot join");
        // An error means that an earlier reason waits.
        let _ = self.ended.try_send(why);
    }
}

/// True if a folder is absent or has nothing in it.
fn is_empty(folder: &Path) -> Result<bool, NodeError> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(NodeError::Setting(format!("{}: {error}", folder.display()))),
    }
}

impl Joiner for Join {
    type Host = Validator;

    fn joined(&self) -> Option<(u64, B256)> {
        match &self.stage {
            Stage::Whole { root, metadata } => Some((metadata.height(), *root)),
            Stage::Idle | Stage::Restoring(_) => None,
        }
    }

    fn offer(&mut self, offer: &Offer, root: B256) -> Offered {
        if offer.format != FORMAT {
            return Offered::OtherFormat;
        }
        let checked = Metadata::decode(&offer.metadata).and_then(|metadata| {
            let (manifest, anchored) = metadata.check(self.chain, root)?;
            let is_same = (metadata.height(), manifest.chunks()) == (offer.height, offer.chunks.into());
            is_same.then_some((metadata, anchored))
        });
        let Some((metadata, anchored)) = checked else { return Offered::Lie };
        if matches!(&self.stage, Stage::Whole { root: known, metadata: of } if (*known, of) == (root, &metadata)) {
            return Offered::Accepted;
        }
        match self.begin(root, metadata, anchored) {
            Ok(()) => Offered::Accepted,
            Err(why) => {
                self.tell(why);
                Offered::Unable
            }
        }
    }

    fn apply(&mut self, number: u32, chunk: &Bytes) -> Applied {
        self.take(number, chunk).unwrap_or_else(|why| {
            self.tell(why);
            Applied::Unable
        })
    }

    fn failed(&mut self, why: &str) {
        self.tell(NodeError::Setting(format!("the node cannot join the chain: {why}")));
    }

    fn open(&mut self) -> Result<Validator, String> {
        self.go_on().map_err(|why| {
            let words = why.to_string();
            self.tell(why);
            words
        })
    }
}
