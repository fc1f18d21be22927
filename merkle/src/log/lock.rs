//! The lock of a store's directory.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::Path,
    time::Duration,
};

use super::disk::at;
use crate::types::Error;

/// Times that a lock is tried, and the pause between two of them: a reader that looks if the lock is taken holds it for a moment.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);

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
        let mut tries = 1;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) if tries < TRIES => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => return Err(Error::Locked { path: dir.to_path_buf() }),
                Err(TryLockError::Error(source)) => return Err(at(&path)(source)),
            }
            tries += 1;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Readers that look at the lock do not keep a writer out; another writer does.
    #[test]
    fn a_look_at_the_lock_keeps_no_writer_out() {
        let dir = tempfile::tempdir().expect("a folder");
        let lock = Lock::take(dir.path(), "lock").expect("free");
        assert!(is_taken(dir.path(), "lock"));
        assert!(matches!(Lock::take(dir.path(), "lock"), Err(Error::Locked { .. })));
        drop(lock);
        assert!(!is_taken(dir.path(), "lock"));
        let looking = File::open(dir.path().join("lock")).expect("the file");
        looking.lock_shared().expect("free");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(PAUSE * 3);
                looking.unlock().expect("an unlock");
            });
            assert!(Lock::take(dir.path(), "lock").is_ok(), "the look ends soon");
        });
    }
}
