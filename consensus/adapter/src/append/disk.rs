//! Opening, locking, reading and writing a file.

use super::mark::beginning;
use std::{
    ffi::OsString,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

/// Reason why a file cannot be opened.
#[derive(Debug)]
pub(crate) enum Unopened {
    /// Another process holds it.
    Locked,
    /// Error of the system.
    Io(io::Error),
}

impl From<io::Error> for Unopened {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Opens and locks a file of the kind that `magic` names. A new one gets its beginning under another name, so that a file under
/// its own name always has one.
pub(crate) fn open_or_create(path: &Path, magic: &[u8; 8]) -> Result<File, Unopened> {
    let lock = |file: File| match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Unopened::Locked),
        Err(TryLockError::Error(source)) => Err(Unopened::Io(source)),
    };
    loop {
        match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return lock(opened?),
        }
        let new = beside(path, ".new");
        let file = lock(OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&new)?)?;
        // Another process may have finished the file in between.
        if path.exists() || !new.exists() {
            continue;
        }
        file.set_len(0)?;
        put_at(&file, 0, &beginning(magic)).and_then(|()| file.sync_all())?;
        std::fs::rename(&new, path).and_then(|()| sync_folder(path))?;
        return Ok(file);
    }
}

pub(crate) fn put_at(mut file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

pub(crate) fn read_at(mut file: &File, at: u64, bytes: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(bytes)
}

/// Syncs the folder, so that a new file survives a power cut.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// Path with a suffix behind the file's name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
