//! Files that a replica keeps for people: proofs of faults, and the incident that stopped it.

use super::error::ReplicaError;
use alloy_primitives::Bytes;
use phalanx_bft::Index;
use phalanx_pipeline::Incident;
use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

/// The folder of a replica.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Opens the folder, and refuses one with an incident.
    pub(crate) fn open(dir: &Path) -> Result<Self, ReplicaError> {
        fs::create_dir_all(dir).map_err(|source| ReplicaError::Io { path: dir.to_path_buf(), source })?;
        let folder = Self(dir.to_path_buf());
        let path = folder.incident();
        if path.exists() { Err(ReplicaError::Incident { path }) } else { Ok(folder) }
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    fn incident(&self) -> PathBuf {
        self.0.join("incident.txt")
    }

    /// Keeps the incident that ended the replica.
    pub(crate) fn keep_incident(&self, incident: &Incident) -> Result<(), ReplicaError> {
        write(&self.incident(), format!("{}\n\n{incident:#?}\n", incident.cause).as_bytes())
    }

    /// Keeps a proof against a replica: the first of each.
    pub(crate) fn keep_evidence(&self, against: Index, proof: &Bytes) -> Result<(), ReplicaError> {
        let path = self.0.join(format!("evidence-{}", against.0));
        if path.exists() { Ok(()) } else { write(&path, proof) }
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), ReplicaError> {
    let written = File::create(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(|source| ReplicaError::Io { path: path.to_path_buf(), source })
}
