//! A store in the making: it has a place beside the final one until it is whole, so an interrupted import is no store.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use super::handle::Store;
use crate::{
    log::{Disk, at},
    types::{Backend, Error, StoreConfig},
};

/// Directory beside a store's, locked while it is filled.
#[derive(Debug)]
pub(super) struct Partial {
    target: PathBuf,
    path: PathBuf,
    lock: File,
    disk: Disk,
}

/// Path without links, as far as it exists, and without a separator at its end.
fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.components().collect())
}

/// Directory of a store in the making.
fn beside(target: &Path) -> PathBuf {
    // A link is followed: what it leads to is replaced.
    let mut name = OsString::from(real(target));
    name.push(".partial");
    name.into()
}

/// Directory of an import, restore or backup into `dir` that was interrupted or still runs; `None` if there is none.
pub fn interrupted_import(dir: &Path) -> Option<PathBuf> {
    Some(beside(dir)).filter(|path| path.exists())
}

/// Removes what an interrupted import, restore or backup into `dir` left. Returns false if there was nothing.
///
/// # Errors
/// [`Error::Locked`] if it still runs; [`Error::NotEmpty`] if there is something else, which stays; [`Error::Io`].
pub fn discard_import(dir: &Path) -> Result<bool, Error> {
    let path = beside(dir);
    if !path.exists() {
        return Ok(false);
    }
    refuse_others(&path)?;
    let _lock = lock(&path)?;
    std::fs::remove_dir_all(&path).map_err(at(&path))?;
    Ok(true)
}

/// Refuses a directory with files that no import, restore or backup made.
fn refuse_others(path: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(path).map_err(at(path))? {
        let name = entry.map_err(at(path))?.file_name();
        let name = name.to_string_lossy();
        let is_ours = ["lock", "store", "manifest", "manifest.new"].contains(&&*name)
            || [".chunk", ".new"].iter().any(|end| {
                name.strip_suffix(end).is_some_and(|stem| stem.len() >= 8 && stem.bytes().all(|b| b.is_ascii_digit()))
            });
        if !is_ours {
            return Err(Error::NotEmpty { path: path.to_path_buf() });
        }
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File, Error> {
    let name = path.join("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&name).map_err(at(&name))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.to_path_buf() }),
        Err(TryLockError::Error(source)) => Err(at(&name)(source)),
    }
}

impl Partial {
    /// Begins or continues a store in the making for the place that a configuration names.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] if the place, or the directory beside it, holds something else; [`Error::NotWritten`] in memory;
    /// [`Error::Locked`]; [`Error::Io`].
    pub(super) fn begin(config: &StoreConfig) -> Result<Self, Error> {
        let target = real(config.backend.path().ok_or(Error::NotWritten)?);
        match std::fs::read_dir(&target) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(Error::NotEmpty { path: target });
                }
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&target)(error)),
            Err(_) => {}
        }
        let path = beside(&target);
        std::fs::create_dir_all(&path).map_err(at(&path))?;
        refuse_others(&path)?;
        let lock = lock(&path)?;
        Ok(Self { target, path, lock, disk: Disk::new(config.faults.clone()) })
    }

    /// Path of a file in the directory.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Configuration of the store in the making.
    pub(super) fn config(&self, config: &StoreConfig) -> StoreConfig {
        let path = self.file("store");
        let backend = match config.backend {
            Backend::Mem => Backend::Mem,
            Backend::File(_) => Backend::File(path),
            #[cfg(feature = "rocksdb")]
            Backend::Rocks(_) => Backend::Rocks(path),
        };
        StoreConfig { backend, ..config.clone() }
    }

    /// Removes the store in the making, to begin it anew.
    pub(super) fn clear(&self) -> Result<(), Error> {
        let path = self.file("store");
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&path)(error)),
            _ => Ok(()),
        }
    }

    /// Moves the finished store, which is durable and closed, to its place and opens it.
    ///
    /// # Errors
    /// [`Error::Io`] if the store got no place; [`Error::Unopened`] afterwards.
    pub(super) fn finish(&self, config: StoreConfig) -> Result<Store, Error> {
        let Self { target, path, disk, .. } = self;
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        disk.sync_names(&path.join("store"))?;
        disk.rename(&path.join("store"), target)?;
        let opened = disk.sync_names(parent).and_then(|()| {
            // The store is in its place: what is left is not worth an error.
            let _ = std::fs::remove_dir_all(path);
            Store::open(config)
        });
        opened.map_err(|source| Error::Unopened { path: target.clone(), source: Box::new(source) })
    }

    /// Removes everything, after a failure that repeating cannot mend.
    pub(super) fn discard(&self) {
        // The failure says more than one to remove what it left.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Closing unlocks as well, but not while a process that was just forked holds the descriptor.
        let _ = self.lock.unlock();
    }
}
