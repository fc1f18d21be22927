//! The lock of a store's directory.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::Path,
};

use super::disk::at;
use crate::types::Error;

/// File that is exclusively locked while the log is open for writing.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// Locks a log's directory by the file of this name.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Io`].
    pub(super) fn take(dir: &Path, name: &str) -> Result<Self, Error> {
        let path = dir.join(name);
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(at(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { path: dir.to_path_buf() }),
            Err(TryLockError::Error(source)) => Err(at(&path)(source)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing unlocks as well, but not while a process that was just forked holds the descriptor.
        let _ = self.0.unlock();
    }
}

/// Returns true if a process has the log open for writing.
pub(super) fn is_taken(dir: &Path, name: &str) -> bool {
    File::open(dir.join(name)).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}
