//! Files that a replica keeps for people: proofs of faults, and the incident that stopped it.

use super::error::ReplicaError;
use crate::{config::NetConfig, log::Owner};
use alloy_primitives::Bytes;
use alloy_rlp::Decodable as _;
use phalanx_bft::Index;
use phalanx_engine_api::FatalCause;
use phalanx_host::Boundary;
use phalanx_pipeline::Incident;
use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// Trust in the folder that a replica starts with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beginning {
    /// The replica's newest folder, where it was left: anything else is refused.
    #[default]
    Usual,
    /// The replica's newest folder, at another place.
    Moved,
    /// An older copy, or an empty folder: the replica stays silent until nothing that it may have said matters, see
    /// [`Host::is_silent`](phalanx_host::Host::is_silent).
    Silent,
    /// A folder of any kind, whose state and log go: the replica has to [`join`](super::join()) by a snapshot before it starts.
    Snapshot,
}

/// Leaves the token of a first start in the folder of a replica: a log may begin there once. Dealing a network does so for each of
/// its replicas. A replica without its log and without the token is refused, because it may have voted before.
///
/// # Errors
/// The folder cannot be made or written, or has an incident.
pub fn leave_token(config: &NetConfig, index: Index, dir: &Path) -> Result<(), ReplicaError> {
    match Owner::new(config, index) {
        Some(owner) => Folder::open(dir)?.leave_token(&owner),
        // A network without a name has logs without an owner.
        None => Ok(()),
    }
}

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

    /// Token of a first start, which dealing leaves once.
    fn token(&self) -> PathBuf {
        self.0.join("first-start")
    }

    /// Leaves the token of a first start.
    pub(crate) fn leave_token(&self, owner: &Owner) -> Result<(), ReplicaError> {
        write(&self.token(), &owner.record())
    }

    /// Returns true if the owner starts here for the first time.
    pub(crate) fn has_token(&self, owner: &Owner) -> Result<bool, ReplicaError> {
        match fs::read(self.token()) {
            Ok(bytes) => Ok(owner.record() == bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(ReplicaError::Io { path: self.token(), source }),
        }
    }

    /// Takes the token away, durably: the log has an owner now.
    pub(crate) fn take_token(&self) -> Result<(), ReplicaError> {
        self.remove(self.token())
    }

    /// File that is never written anew, so that a copy of the folder has another one.
    fn place(&self) -> PathBuf {
        self.0.join("place")
    }

    /// Checks that the folder is where it was, and not a copy, which may be older than what the replica has said. A folder that has no place
    /// yet has it from now on, and so has one that is `trusted`.
    pub(crate) fn check_place(&self, trusted: bool) -> Result<(), ReplicaError> {
        let path = self.place();
        let failed = |source| ReplicaError::Io { path: path.clone(), source };
        let noted = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(read.map_err(failed)?),
        };
        match noted {
            Some(noted) if noted == self.identity().map_err(failed)? => return Ok(()),
            // A crash came between making the file and writing it.
            Some(noted) if !noted.is_empty() && !trusted => return Err(ReplicaError::Copied { path }),
            _ => {}
        }
        let removed = fs::remove_file(&path).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        });
        let made = removed.and_then(|()| File::create_new(&path)).and_then(|mut file| {
            file.write_all(self.identity()?.as_bytes())?;
            file.sync_all()?;
            File::open(&self.0)?.sync_all()
        });
        made.map_err(failed)
    }

    /// Numbers of the folder and of the file in the file system, and the time at which the file was made, where there is one.
    fn identity(&self) -> io::Result<String> {
        let (folder, file) = (fs::metadata(&self.0)?, fs::metadata(self.place())?);
        let made = file.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        Ok(format!("{} {} {}\n", folder.ino(), file.ino(), made.as_nanos()))
    }

    /// Mark of a replica that joins by a snapshot: state and log may not belong together.
    fn joining(dir: &Path) -> PathBuf {
        dir.join("joins-by-snapshot")
    }

    /// Returns true if joining by a snapshot has begun in a folder and not ended.
    pub(crate) fn is_joining(dir: &Path) -> bool {
        Self::joining(dir).exists()
    }

    /// Notes, durably, that joining has begun.
    pub(crate) fn begin_joining(&self) -> Result<(), ReplicaError> {
        if Self::is_joining(&self.0) { Ok(()) } else { write(&Self::joining(&self.0), b"") }
    }

    /// Notes, durably, that state and log belong together again.
    pub(crate) fn end_joining(&self) -> Result<(), ReplicaError> {
        self.remove(Self::joining(&self.0))
    }

    /// Removes a file, durably.
    fn remove(&self, path: PathBuf) -> Result<(), ReplicaError> {
        let taken = match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            taken => taken.and_then(|()| File::open(&self.0)?.sync_all()),
        };
        taken.map_err(|source| ReplicaError::Io { path, source })
    }

    /// Keeps the block that an epoch begins above, durably: the replica goes on in that epoch.
    pub(crate) fn keep_boundary(&self, boundary: &Boundary) -> Result<(), ReplicaError> {
        write(&self.0.join(format!("epoch-{}", boundary.change.epoch)), &alloy_rlp::encode(boundary))
    }

    /// The block that an epoch begins above, if it is kept.
    pub(crate) fn boundary(&self, epoch: u64) -> Result<Option<Boundary>, ReplicaError> {
        let path = self.0.join(format!("epoch-{epoch}"));
        let failed = |source| ReplicaError::Io { path: path.clone(), source };
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(failed)?,
        };
        let boundary = Boundary::decode(&mut bytes.as_slice());
        let boundary = boundary.map_err(|error| failed(io::Error::other(error)))?;
        if boundary.change.epoch == epoch {
            Ok(Some(boundary))
        } else {
            Err(failed(io::Error::other("it is of another epoch")))
        }
    }

    /// All blocks that epochs begin above and that are kept.
    pub(crate) fn boundaries(&self) -> Result<Vec<Boundary>, ReplicaError> {
        let failed = |source| ReplicaError::Io { path: self.0.clone(), source };
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let epoch = name.to_str().and_then(|name| name.strip_prefix("epoch-")).and_then(|name| name.parse().ok());
            found.extend(epoch.map(|epoch| self.boundary(epoch)).transpose()?.flatten());
        }
        Ok(found)
    }

    fn incident(&self) -> PathBuf {
        self.0.join("incident.txt")
    }

    /// Keeps the incident that ended the replica.
    pub(crate) fn keep_incident(&self, incident: &Incident) -> Result<(), ReplicaError> {
        write(&self.incident(), format!("{}\n\n{incident:#?}\n", incident.cause).as_bytes())
    }

    /// Keeps a cause that no restart mends, unless an incident tells more. Failures of disks and processes are none.
    pub(crate) fn keep_cause(&self, cause: &FatalCause) -> Result<(), ReplicaError> {
        let path = self.incident();
        match cause {
            FatalCause::Io(_) | FatalCause::Stopped(_) => Ok(()),
            _ if path.exists() => Ok(()),
            cause => write(&path, format!("{cause}\n\n{cause:#?}\n").as_bytes()),
        }
    }

    /// Keeps a proof against a replica: the first of each.
    pub(crate) fn keep_evidence(&self, against: Index, proof: &Bytes) -> Result<(), ReplicaError> {
        let path = self.0.join(format!("evidence-{}", against.0));
        if path.exists() { Ok(()) } else { write(&path, proof) }
    }
}

/// Writes a file that is whole under its name, also after a crash.
fn write(path: &Path, bytes: &[u8]) -> Result<(), ReplicaError> {
    let beside = path.with_extension("new");
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    });
    written.map_err(|source| ReplicaError::Io { path: path.to_path_buf(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_keeps_the_replica_down_and_a_full_disk_does_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(dir.path()).expect("a folder");
        for passing in [FatalCause::Io("full".into()), FatalCause::Stopped("killed".into())] {
            folder.keep_cause(&passing).expect("nothing to write");
            Folder::open(dir.path()).expect("no incident");
        }
        folder.keep_cause(&FatalCause::Contradiction { height: 7 }).expect("room");
        assert!(matches!(Folder::open(dir.path()), Err(ReplicaError::Incident { .. })));
        let told = fs::read_to_string(folder.incident()).expect("a file");
        folder.keep_cause(&FatalCause::Fork { height: 8 }).expect("kept already");
        assert_eq!(fs::read_to_string(folder.incident()).expect("a file"), told, "the first cause stays");
        folder.keep_evidence(Index(2), &Bytes::from_static(b"proof")).expect("room");
        let names: Vec<_> =
            fs::read_dir(dir.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names.len(), 2, "no half-written file stays: {names:?}");
    }
}
