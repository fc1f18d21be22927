//! The identity of a store: a small file that says what the directory holds. While a store is
//! being created a copy is there under another name: until that is gone nothing was ever written to the store.
//!
//! ```text
//! store = "PHXS" || layout || backend || params || secret || first 8 bytes of a digest of all before it
//! ```

use std::{
    fs::OpenOptions,
    io,
    path::{Path, PathBuf},
};

use phalanx_merkle_proof::{HashFn, Params};

use super::{
    disk::{Disk, at},
    record::{Fields, Marks, params_in},
};
use crate::types::{Access, Backend, Error};

/// Name of the file.
const NAME: &str = "store";

/// Name of a copy that is there while the store is being created, or adopted from an earlier layout.
const NEW_NAME: &str = "store.new";

/// Damage of a directory without [`NAME`] whose rows no earlier version wrote.
pub(super) const NAMELESS: &str =
    "its file `store` is missing, without which its rows cannot be told from those of another store";

const MAGIC: [u8; 4] = *b"PHXS";

/// Version of the layout of files that this build makes.
const LAYOUT: u8 = 3;

/// Backend of a store on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Rocks,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Rocks => "rocks",
        }
    }

    fn backend(self, path: &Path) -> Option<Backend> {
        match self {
            Self::File => Some(Backend::File(path.to_path_buf())),
            #[cfg(feature = "rocksdb")]
            Self::Rocks => Some(Backend::Rocks(path.to_path_buf())),
            #[cfg(not(feature = "rocksdb"))]
            Self::Rocks => None,
        }
    }
}

/// Content of the file.
#[derive(Clone, Copy, Debug)]
struct Stored {
    kind: Kind,
    params: Params,
    /// Zeros for a store of an earlier layout.
    secret: [u8; 16],
}

impl Stored {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[LAYOUT, self.kind as u8]);
        out.extend_from_slice(&self.params.encode());
        out.extend_from_slice(&self.secret);
        let digest = HashFn::Sha256.key(&out);
        out.extend_from_slice(&digest[..8]);
        out
    }

    /// Decodes a file.
    ///
    /// # Errors
    /// A description of the damage.
    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let damaged = || "the file that names the store is damaged".to_owned();
        let (body, sum) = bytes.split_last_chunk::<8>().ok_or_else(damaged)?;
        if HashFn::Sha256.key(body)[..8] != *sum {
            return Err(damaged());
        }
        let mut fields = Fields(body);
        let mut decode = || {
            (*fields.array()? == MAGIC).then_some(())?;
            let [layout, kind] = *fields.array()?;
            let params = Params::decode(fields.take(Params::LEN)?)?;
            let secret = *fields.array()?;
            let kind = match kind {
                0 => Kind::File,
                1 => Kind::Rocks,
                _ => return None,
            };
            (layout == LAYOUT && fields.0.is_empty()).then_some(Self { kind, params, secret })
        };
        decode().ok_or_else(|| format!("the file that names the store is not of layout {LAYOUT}, of this version"))
    }

    fn read(path: &Path) -> Result<Option<Self>, Error> {
        match std::fs::read(path) {
            Ok(bytes) => {
                let corrupt = |what| Error::Corrupt { path: path.to_path_buf(), what };
                Self::decode(&bytes).map(Some).map_err(corrupt)
            }
            // A path that leads through a file names no directory.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(at(path)(error)),
        }
    }

    /// Writes the file durably.
    fn write(&self, dir: &Path, name: &str, disk: &Disk) -> Result<(), Error> {
        let path = dir.join(name);
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(at(&path))?;
        disk.cut(&file, &path, 0)?;
        disk.append(&file, &path, &self.encode())?;
        disk.sync(&file, &path)?;
        disk.sync_names(dir)
    }
}

/// Backend and parameters of the store in a directory, as the directory itself says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Backend, with the directory as its place.
    pub backend: Backend,
    /// Genesis parameters, and with them the hash function.
    pub params: Params,
}

impl Identity {
    /// Finds out what store a directory holds. Writes nothing, and works beside a running node.
    ///
    /// # Errors
    /// [`Error::NoStore`]; [`Error::OtherBackend`] for a RocksDB store if this build has no RocksDB; [`Error::Corrupt`];
    /// [`Error::Io`].
    pub fn of(dir: &Path) -> Result<Self, Error> {
        let unknown = |kind: Kind| Error::OtherBackend {
            path: dir.to_path_buf(),
            found: kind.name(),
            expected: "file (this build has no RocksDB)",
        };
        let (kind, params) = match Found::look(dir)? {
            Found::Whole(Stored { kind, params, .. }) => (kind, Some(params)),
            Found::Earlier(kind) => (kind, None),
            other => return Err(other.no_store(dir)),
        };
        let backend = kind.backend(dir).ok_or_else(|| unknown(kind))?;
        Ok(Self { backend, params: params.map_or_else(|| earlier_params(kind, dir), Ok)? })
    }
}

/// Parameters of a store of an earlier layout, by its first record. Refuses what another program made.
fn earlier_params(kind: Kind, dir: &Path) -> Result<Params, Error> {
    let row = match kind {
        Kind::File => {
            super::file::refuse_format_1(dir, &Params::default())?;
            super::file::params_row(dir)?
        }
        #[cfg(feature = "rocksdb")]
        Kind::Rocks => super::rocks::params_row(dir)?,
        #[cfg(not(feature = "rocksdb"))]
        Kind::Rocks => None,
    };
    let corrupt = || Error::Corrupt { path: dir.to_path_buf(), what: NAMELESS.to_owned() };
    row.as_deref().and_then(params_in).ok_or_else(corrupt)
}

/// Content of a directory.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// Store that was created.
    Whole(Stored),
    /// Store of an earlier layout, without a file of its identity.
    Earlier(Kind),
    /// Creation that was interrupted; nothing was ever written to the store.
    Begun(Option<Stored>),
    /// No file at all, or no directory.
    Nothing,
    /// No store.
    Other,
}

impl Found {
    fn look(dir: &Path) -> Result<Self, Error> {
        let begun = dir.join(NEW_NAME).exists();
        if !begun && let Some(stored) = Stored::read(&dir.join(NAME))? {
            return Ok(Self::Whole(stored));
        }
        let entries = match std::fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Nothing),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(Self::Other),
            Err(error) => return Err(at(dir)(error)),
        };
        let (mut any, mut files, mut tables) = (false, false, false);
        for entry in entries {
            let name = entry.map_err(at(dir))?.file_name();
            let name = name.to_string_lossy();
            // A creation may be killed between its lock and its first file.
            any |= !LOCKS.contains(&&*name);
            files |= super::file::number_of(&name).is_some() || name == "state.log";
            tables |= name == "CURRENT" || name.starts_with("MANIFEST-");
        }
        // A torn file says that nothing else was made yet.
        let new = if begun { Stored::read(&dir.join(NEW_NAME)).unwrap_or_default() } else { None };
        Ok(match new.filter(|stored| stored.secret != [0; 16]) {
            Some(stored) => Self::Begun(Some(stored)),
            None if files => Self::Earlier(Kind::File),
            None if tables => Self::Earlier(Kind::Rocks),
            None if begun => Self::Begun(None),
            None if any => Self::Other,
            None => Self::Nothing,
        })
    }

    fn no_store(self, dir: &Path) -> Error {
        let found = match self {
            Self::Nothing if dir.exists() => "the directory is empty",
            Self::Nothing => "no such directory",
            Self::Begun(_) => "its creation was interrupted before the first block",
            _ => "the directory holds something else",
        };
        Error::NoStore { path: dir.to_path_buf(), found }
    }
}

/// Place of a store that may be opened: its directory was looked at, and nothing was changed.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    dir: PathBuf,
    stored: Stored,
    pub(crate) how: How,
    pub(crate) marks: Marks,
}

/// Way in which a store's place is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The store is created, perhaps after an interrupted creation.
    Create,
    /// The store is of an earlier layout.
    Adopt,
    Open,
}

/// Names of the backends' lock files.
const LOCKS: [&str; 2] = ["lock", "store.lock"];

impl Place {
    /// Looks at a backend's directory; `None` in memory.
    ///
    /// # Errors
    /// [`Error::NoStore`], [`Error::OtherBackend`], [`Error::Format`], [`Error::Corrupt`], [`Error::Io`].
    pub(crate) fn find(backend: &Backend, access: Access, params: &Params) -> Result<Option<Self>, Error> {
        let (dir, kind) = match backend {
            Backend::Mem => return Ok(None),
            Backend::File(dir) => (dir, Kind::File),
            #[cfg(feature = "rocksdb")]
            Backend::Rocks(dir) => (dir, Kind::Rocks),
        };
        let found = Found::look(dir)?;
        let (how, stored) = match found {
            Found::Whole(stored) => (How::Open, stored),
            // Before the lock: in a directory of another program nothing is made at all.
            Found::Earlier(found) if found == kind => {
                (How::Adopt, Stored { kind, params: earlier_params(kind, dir)?, secret: [0; 16] })
            }
            Found::Earlier(found) => (How::Adopt, Stored { kind: found, params: *params, secret: [0; 16] }),
            Found::Begun(None) | Found::Nothing if access == Access::Create => {
                (How::Create, Stored { kind, params: *params, secret: secret(dir)? })
            }
            Found::Begun(Some(stored)) if access == Access::Create => (How::Create, stored),
            other => return Err(other.no_store(dir)),
        };
        if stored.kind != kind {
            let (found, expected) = (stored.kind.name(), kind.name());
            return Err(Error::OtherBackend { path: dir.clone(), found, expected });
        }
        if stored.params != *params {
            let (found, expected) = (super::record::in_words(&stored.params), super::record::in_words(params));
            return Err(Error::Format { path: dir.clone(), found, expected });
        }
        Ok(Some(Self { dir: dir.clone(), stored, how, marks: Marks::new(&stored.secret) }))
    }

    /// Directory of the store.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    #[cfg(feature = "rocksdb")]
    pub(super) fn is_rocks(&self) -> bool {
        self.stored.kind == Kind::Rocks
    }

    /// Begins to create the store, after its lock was taken.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process created it meanwhile.
    pub(super) fn begin(&self, disk: &Disk) -> Result<(), Error> {
        if self.how == How::Open {
            return Ok(());
        }
        match Found::look(&self.dir)? {
            // An interrupted creation goes on. The file is whole, and what was made since depends on it.
            Found::Begun(Some(found)) if found.secret == self.stored.secret => Ok(()),
            Found::Begun(Some(_)) | Found::Whole(_) => Err(Error::Locked { path: self.dir.clone() }),
            _ if self.how == How::Create => self.stored.write(&self.dir, NEW_NAME, disk),
            _ => Ok(()),
        }
    }

    /// Ends the creation, or the adoption, of the store.
    pub(super) fn finish(&self, disk: &Disk) -> Result<(), Error> {
        if self.how == How::Open {
            return Ok(());
        }
        if self.how == How::Adopt {
            self.stored.write(&self.dir, NEW_NAME, disk)?;
        }
        self.stored.write(&self.dir, NAME, disk)?;
        disk.remove(&self.dir.join(NEW_NAME))?;
        disk.sync_names(&self.dir)
    }
}

/// Draws the secret of a new store.
fn secret(dir: &Path) -> Result<[u8; 16], Error> {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).map_err(|error| at(dir)(io::Error::other(error)))?;
    Ok(secret)
}
