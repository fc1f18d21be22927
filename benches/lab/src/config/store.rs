//! Place of the state.

use crate::error::Usage;
use phalanx::merkle::Backend;
use std::path::{Path, PathBuf};

/// Place of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// Memory.
    Mem,
    /// Log and checkpoints in a folder.
    File(PathBuf),
    /// RocksDB in a folder.
    Rocks(PathBuf),
}

impl Store {
    /// Reads `mem`, `file:DIR` or `rocks:DIR`.
    ///
    /// # Errors
    /// If `word` is none of them.
    pub fn parse(word: &str) -> Result<Self, String> {
        match word.split_once(':') {
            None if word == "mem" => Ok(Self::Mem),
            Some(("file", dir)) if !dir.is_empty() => Ok(Self::File(dir.into())),
            Some(("rocks", dir)) if !dir.is_empty() => Ok(Self::Rocks(dir.into())),
            _ => Err("expected mem, file:DIR or rocks:DIR".into()),
        }
    }

    /// Folder of a store on disk.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Mem => None,
            Self::File(path) | Self::Rocks(path) => Some(path),
        }
    }

    /// The same kind of store in another folder.
    #[must_use]
    pub fn at(&self, path: PathBuf) -> Self {
        match self {
            Self::Mem => Self::Mem,
            Self::File(_) => Self::File(path),
            Self::Rocks(_) => Self::Rocks(path),
        }
    }

    /// Refuses a place where no store can be made, before any work is done for it.
    ///
    /// # Errors
    /// If this build lacks the backend, or the system refuses files there.
    pub fn check(&self) -> Result<(), Usage> {
        self.backend()?;
        let Some(path) = self.path() else { return Ok(()) };
        let refused = |why: String| Err(Usage(format!("--store {self}: no folder can be made there: {why}")));
        // The nearest folder that is there already: the store's own, or one above it.
        let above = path.ancestors().find(|above| above.exists());
        let above = above.filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !above.is_dir() {
            return refused(format!("{} is a file", above.display()));
        }
        tempfile::tempfile_in(above).map(drop).or_else(|error| refused(error.to_string()))
    }

    /// Backend of the store.
    ///
    /// # Errors
    /// If this build lacks the backend.
    pub fn backend(&self) -> Result<Backend, Usage> {
        match self {
            Self::Mem => Ok(Backend::Mem),
            Self::File(path) => Ok(Backend::File(path.clone())),
            #[cfg(feature = "rocksdb")]
            Self::Rocks(path) => Ok(Backend::Rocks(path.clone())),
            #[cfg(not(feature = "rocksdb"))]
            Self::Rocks(_) => {
                Err(Usage("this build has no RocksDB: build with `--features rocksdb`, or use file:DIR".into()))
            }
        }
    }
}

impl core::fmt::Display for Store {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Mem => f.write_str("mem"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Rocks(path) => write!(f, "rocks:{}", path.display()),
        }
    }
}
