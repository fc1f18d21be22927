//! Temporary folders that go with the process, also where it is ended at once.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tempfile::TempDir;

/// Folders that exist now.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn folders() -> MutexGuard<'static, Vec<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Temporary folder, removed with everything in it when it is dropped, and by [`remove_all`].
#[derive(Debug)]
pub struct Temporary(TempDir);

impl Temporary {
    /// Makes a folder in the system's place for temporary files.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new() -> io::Result<Self> {
        let folder = TempDir::with_prefix("phalanx-")?;
        folders().push(folder.path().to_path_buf());
        Ok(Self(folder))
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        folders().retain(|folder| folder != self.0.path());
    }
}

/// Removes all temporary folders of a process that ends now, while its threads may still write into them.
pub fn remove_all() {
    for folder in std::mem::take(&mut *folders()) {
        // A file that is made meanwhile keeps its folder: a few more passes find it.
        let _ = (0..20).find(|_| fs::remove_dir_all(&folder).is_ok() || !folder.exists());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_go_when_dropped_and_when_the_process_ends() {
        let (first, second) = (Temporary::new().expect("a folder"), Temporary::new().expect("a folder"));
        let paths = [first.path().to_path_buf(), second.path().to_path_buf()];
        fs::write(paths[1].join("file"), "content").expect("a file");
        drop(first);
        assert!(!paths[0].exists() && paths[1].exists());
        remove_all();
        assert!(!paths[1].exists());
    }
}
