//! The snapshot that a chain was joined with, as a file in the node's folder.
//!
//! While its chunks come, and until the chain goes on from it, the file is named `joining`: then everything may be begun anew.
//! Afterwards it is `anchor`, for good.

use super::Metadata;
use crate::{
    durable::{failed, write_durably},
    error::NodeError,
};
use phalanx::alloy::primitives::B256;
use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// Files of a snapshot's metadata in a folder.
#[derive(Clone, Debug)]
pub(crate) struct AnchorFiles {
    folder: PathBuf,
}

impl AnchorFiles {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    fn joining(&self) -> PathBuf {
        self.folder.join("joining")
    }

    fn anchor(&self) -> PathBuf {
        self.folder.join("anchor")
    }

    /// Root and metadata of the snapshot that is being joined with.
    pub(crate) fn read_joining(&self) -> Result<Option<(B256, Metadata)>, NodeError> {
        read(&self.joining())
    }

    /// Root and metadata of the snapshot that the chain was joined with.
    pub(crate) fn read(&self) -> Result<Option<(B256, Metadata)>, NodeError> {
        read(&self.anchor())
    }

    /// Notes, durably, that a snapshot is being joined with.
    pub(crate) fn begin(&self, root: B256, metadata: &Metadata) -> Result<(), NodeError> {
        let body = [root.as_slice(), &metadata.encode()].concat();
        let bytes = [&crc32fast::hash(&body).to_be_bytes()[..], &body].concat();
        write_durably(&self.joining(), &bytes)
    }

    /// Notes, durably, that the chain goes on from the snapshot.
    pub(crate) fn settle(&self) -> Result<(), NodeError> {
        let path = self.joining();
        let settle = || {
            fs::rename(&path, self.anchor())?;
            File::open(&self.folder)?.sync_all()
        };
        settle().map_err(|error| failed(&path, &error))
    }

    /// Forgets, durably, a snapshot that is not joined with after all, and one of an earlier chain in the folder.
    pub(crate) fn forget(&self) -> Result<(), NodeError> {
        for path in [self.joining(), self.anchor()] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(&path, &error)),
                _ => {}
            }
        }
        let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| failed(&self.folder, &error))
    }
}

fn read(path: &Path) -> Result<Option<(B256, Metadata)>, NodeError> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| failed(path, &error))?,
    };
    let parse = || {
        let (crc, body) = bytes.split_first_chunk()?;
        let (root, metadata) = body.split_first_chunk()?;
        let is_whole = crc32fast::hash(body) == u32::from_be_bytes(*crc);
        is_whole.then(|| Some((B256::new(*root), Metadata::decode(metadata)?)))?
    };
    let damaged = "it is damaged: restore the node's folder from a copy, or empty it and join again";
    parse().map(Some).ok_or_else(|| failed(path, &damaged))
}
