//! Files and folders that go with the process, also where a signal ends it at once.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tempfile::TempDir;

/// Paths to remove when the process ends now.
static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn paths() -> MutexGuard<'static, Vec<PathBuf>> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Temporary folder, removed with everything in it when it is dropped, and by [`remove_all`].
#[derive(Debug)]
pub struct Temporary {
    /// Removed from the list after the folder: a signal in between finds nothing left to do.
    folder: Option<TempDir>,
    listed: Listed,
}

impl Temporary {
    /// Makes a folder in the system's place for temporary files.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new() -> io::Result<Self> {
        let folder = TempDir::with_prefix("phalanx-")?;
        let listed = Listed::new(folder.path().to_path_buf());
        Ok(Self { folder: Some(folder), listed })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.listed.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        drop(self.folder.take());
    }
}

/// Output in the making, a file or a folder: removed when it is dropped, and by [`remove_all`], unless it got its place.
#[derive(Debug)]
pub struct Unfinished(Listed);

impl Unfinished {
    /// Lists the path of output that the caller is about to make.
    pub fn new(path: PathBuf) -> Self {
        Self(Listed::new(path))
    }

    /// Path of the output until it is finished.
    pub fn path(&self) -> &Path {
        &self.0.0
    }

    /// Gives finished output its place, durably.
    ///
    /// # Errors
    /// The output cannot be renamed; it is removed then.
    pub fn finish(self, place: &Path) -> io::Result<()> {
        fs::rename(self.path(), place)?;
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::File::open(folder)?.sync_all()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Nothing is there if it got its place.
        let _ = remove(self.path());
    }
}

/// Name of output in the making, which no other process has.
pub fn in_the_making(place: &Path) -> PathBuf {
    // Without a separator at its end: the output is beside the place, not in it.
    let mut name = place.components().collect::<PathBuf>().into_os_string();
    name.push(format!(".{}.partial", std::process::id()));
    name.into()
}

/// Writes a file as a whole: beside, synced, and renamed.
///
/// # Errors
/// The file cannot be written; its place has what it had.
pub fn write_whole(place: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = Unfinished::new(in_the_making(place));
    let mut file = fs::File::create(new.path())?;
    file.write_all(bytes)?;
    file.sync_all()?;
    new.finish(place)
}

/// Path in the list while it exists.
#[derive(Debug)]
struct Listed(PathBuf);

impl Listed {
    fn new(path: PathBuf) -> Self {
        paths().push(path.clone());
        Self(path)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        paths().retain(|path| *path != self.0);
    }
}

fn remove(path: &Path) -> io::Result<()> {
    if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// Removes temporary folders and unfinished output of a process that ends now, while its threads may still write into them.
pub fn remove_all() {
    for path in std::mem::take(&mut *paths()) {
        // A file that is made meanwhile keeps its folder: a few more passes find it.
        let _ = (0..20).find(|_| remove(&path).is_ok() || !path.exists());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_goes_when_dropped_and_when_the_process_ends() {
        let (first, second) = (Temporary::new().expect("a folder"), Temporary::new().expect("a folder"));
        let folders = [first.path().to_path_buf(), second.path().to_path_buf()];
        let output = |name: &str| {
            let output = Unfinished::new(folders[1].join(name));
            fs::write(output.path(), "content").expect("a file");
            output
        };
        let place = folders[1].join("place");
        output("finished").finish(&place).expect("a place");
        drop(output("dropped"));
        assert_eq!(fs::read_dir(&folders[1]).expect("a folder").count(), 1);
        assert_eq!(fs::read_to_string(&place).expect("a file"), "content");
        let left = output("left");
        drop(first);
        assert!(!folders[0].exists() && left.path().exists());
        remove_all();
        assert!(!folders[1].exists());
    }
}
