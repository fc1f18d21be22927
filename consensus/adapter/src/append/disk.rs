//! Opening, locking, reading and writing a file.

use super::mark::{Mark, beginning};
use core::ops::Deref;
use std::{
    ffi::OsString,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Seek as _, SeekFrom, Write as _},
    os::unix::fs::MetadataExt as _,
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

/// A locked file.
#[derive(Debug)]
pub(crate) struct Held(File);

impl Held {
    pub(crate) fn take(file: File) -> Result<Self, Unopened> {
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(Unopened::Locked),
            Err(TryLockError::Error(source)) => Err(Unopened::Io(source)),
        }
    }
}

impl Deref for Held {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Closing unlocks as well, but not while a process that was just forked holds the descriptor.
        let _ = self.0.unlock();
    }
}

/// Opens and locks a file of the kind that `magic` names. A new one gets its beginning under another name, so that a file under
/// its own name always has one.
pub(crate) fn open_or_create(path: &Path, magic: &[u8; 8]) -> Result<Held, Unopened> {
    loop {
        match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => {
                let file = Held::take(opened?)?;
                // A replacement may have taken the name between the opening and the lock.
                if names(path, &file)? {
                    return Ok(file);
                }
                continue;
            }
        }
        let new = beside(path, ".new");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&new)?;
        let file = Held::take(file)?;
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

/// A file whose writes survive a power cut from the next sync on.
pub(crate) trait Durable {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    fn sync(&self) -> io::Result<()>;
}

impl Durable for File {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        put_at(self, at, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }
}

/// Marks records that a killed process may have left without a sync. A power cut at any step leaves no mark ahead of its data.
pub(crate) fn promise(file: &impl Durable, mark: &Mark) -> io::Result<()> {
    file.sync()?;
    file.write_at(Mark::page(mark.height), &mark.encode())?;
    file.sync()
}

pub(crate) fn put_at(mut file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

/// True if the path still names the file.
fn names(path: &Path, file: &File) -> io::Result<bool> {
    let identity = |of: std::fs::Metadata| (of.dev(), of.ino());
    match path.metadata() {
        Ok(named) => Ok(identity(named) == identity(file.metadata()?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Steps in order.
    #[derive(Default)]
    struct Recorded(RefCell<Vec<&'static str>>);

    impl Durable for Recorded {
        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            self.0.borrow_mut().push("mark");
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            self.0.borrow_mut().push("sync");
            Ok(())
        }
    }

    /// A killed process leaves records that only the page cache has. A mark that is written beside them may reach the disk first.
    #[test]
    fn a_mark_waits_for_the_records_that_it_names() {
        let file = Recorded::default();
        promise(&file, &Mark::EMPTY).expect("a file that takes everything");
        assert_eq!(*file.0.borrow(), ["sync", "mark", "sync"]);
    }

    #[test]
    fn a_file_that_lost_its_name_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let file = open_or_create(&path, b"PHXTEST1").expect("a new file");
        assert!(names(&path, &file).expect("a file"));
        std::fs::write(beside(&path, ".next"), b"new").expect("a file");
        std::fs::rename(beside(&path, ".next"), &path).expect("a file");
        assert!(!names(&path, &file).expect("a file"), "another file has the name");
        std::fs::remove_file(&path).expect("a file");
        assert!(!names(&path, &file).expect("no error"), "no file has the name");
    }
}
