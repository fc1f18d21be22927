//! The store that a command works on: the folder itself says of which kind it is and which hash function it has.

use anyhow::Context as _;
use clap::Args;
use phalanx::merkle::{self, Access, Backend, HashFn, Identity, Memory, Params, StoreConfig, Tail};
use phalanx_lab::{
    config::{Store, choice, word},
    error::Usage,
    report::text::counted,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Selects a store.
#[derive(Debug, Args)]
pub(crate) struct Db {
    /// Folder of the store; file:DIR or rocks:DIR refuse another kind
    #[arg(long, value_name = "DIR", value_parser = Place::parse)]
    db: Place,
    /// Refuse a store with another hash of the commitment
    #[arg(long, value_parser = choice::<HashFn>())]
    hasher: Option<HashFn>,
    /// Refuse a store whose last block is below this height, which consensus knows as committed
    #[arg(long, value_name = "HEIGHT")]
    min_height: Option<u64>,
}

/// Place of a store on the command line.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Folder of any kind of store.
    Folder(PathBuf),
    /// Store of a kind.
    Store(Store),
}

impl Place {
    /// Reads `DIR`, `file:DIR` or `rocks:DIR`.
    pub(super) fn parse(word: &str) -> Result<Self, String> {
        match Store::parse(word) {
            Ok(Store::Mem) => Err("a store in memory is empty".into()),
            Ok(store) => Ok(Self::Store(store)),
            Err(_) if word.is_empty() || word == "file:" || word == "rocks:" => {
                Err("expected DIR, file:DIR or rocks:DIR".into())
            }
            Err(_) => Ok(Self::Folder(word.into())),
        }
    }

    /// The folder.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Folder(path) => path,
            Self::Store(store) => store.path().unwrap_or(Path::new("")),
        }
    }

    /// Backend of a store that is made here, of a kind like `default` unless the place names one.
    pub(super) fn backend(&self, default: &Store) -> Result<Backend, Usage> {
        match self {
            Self::Folder(path) => default.at(path.clone()).backend(),
            Self::Store(store) => store.backend(),
        }
    }
}

/// Bytes of values that a command keeps in memory, besides an index of eleven bytes per key.
const CACHE: usize = 64 << 20;

/// Configuration of a store with the rules of a chain's state. Values stay on disk: the machine of a state larger than memory must
/// be able to look at it, check it and copy it.
pub(super) fn config(backend: Backend, params: Params) -> StoreConfig {
    let memory = Memory::Cached { bytes: CACHE };
    StoreConfig::new(backend).with_params(params).with_contents(phalanx::contents()).with_memory(memory)
}

/// Refuses a hash function that is not the wanted one.
pub(super) fn check_hasher(path: &Path, found: HashFn, wanted: Option<HashFn>) -> Result<(), merkle::Error> {
    match wanted.filter(|wanted| *wanted != found) {
        None => Ok(()),
        Some(wanted) => Err(merkle::Error::Format {
            path: path.to_path_buf(),
            found: format!("the hash function {}", word(found)),
            expected: word(wanted),
        }),
    }
}

impl Db {
    /// Folder of the store.
    pub(super) fn path(&self) -> &Path {
        self.db.path()
    }

    /// Finds out which store it is, and refuses one of another kind than the command line names.
    pub(super) fn identity(&self) -> anyhow::Result<Identity> {
        let path = self.path();
        let expected = match &self.db {
            Place::Folder(_) => None,
            // A kind that this build lacks is named, whatever is in the folder.
            Place::Store(store) => Some(store.backend()?.name()),
        };
        if let Some(partial) = merkle::interrupted_import(path).filter(|_| is_empty(path)) {
            let what = "an import, restore or backup into it was interrupted or still runs";
            let repair = "repeat the command, or `phalanx state discard` it";
            let (path, partial) = (path.display(), partial.display());
            return Err(Usage(format!("{path} is no store yet: {what} ({partial}); {repair}")).into());
        }
        if path.is_file() {
            return Err(Usage(format!("{} is a file, and a store is a folder", path.display())).into());
        }
        let identity = Identity::of(path)?;
        let found = identity.backend.name();
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            return Err(merkle::Error::OtherBackend { path: path.to_path_buf(), found, expected }.into());
        }
        check_hasher(path, identity.params.hash, self.hasher)?;
        Ok(identity)
    }

    /// Opens the store to look at it: beside a running node, and without writing a byte.
    pub(super) fn read(&self) -> anyhow::Result<merkle::Store> {
        self.open(Access::Read)
    }

    /// Opens the store, and says on stderr what of its end is torn or gone.
    pub(super) fn open(&self, access: Access) -> anyhow::Result<merkle::Store> {
        let Identity { backend, params, .. } = self.identity().context("opening the store")?;
        let mut config = config(backend, params).with_access(access);
        config.expected_min_height = self.min_height;
        let store = merkle::Store::open(config).map_err(|error| {
            // A corrupt store is never repaired in place: the damage may hit durable blocks.
            let hint = match error {
                merkle::Error::Corrupt { .. } => {
                    "opening the store; to repair it, move it away and `phalanx state import` what a backup or another node's \
                     `phalanx state export` holds, with the --root that you trust"
                }
                _ => "opening the store",
            };
            anyhow::Error::new(error).context(hint)
        })?;
        lines(store.tail(), access).iter().for_each(|line| eprintln!("phalanx: {line}"));
        Ok(store)
    }
}

/// Returns true if there is nothing at a path, or an empty folder.
fn is_empty(path: &Path) -> bool {
    fs::read_dir(path).map_or_else(|_| !path.exists(), |mut entries| entries.next().is_none())
}

/// Descriptions of what opening with this access found torn or gone.
pub(super) fn lines(tail: &Tail, access: Access) -> Vec<String> {
    let torn = tail.torn.iter().map(|torn| {
        let kept = match &torn.kept {
            Some(kept) => format!("cut off and kept in {}", kept.display()),
            None if access == Access::Read => "which belongs to no block and is left in place".into(),
            None => "cut off and lost: there was no room to keep it".into(),
        };
        format!("{} has a torn end of {} bytes from byte {}, {kept}", torn.file.display(), torn.bytes, torn.offset)
    });
    let lost = tail.lost.iter().map(|lost| {
        let height = lost.height.map_or_else(String::new, |height| format!(", up to height {height}"));
        let (writes, are) = (counted(lost.writes as usize, "write"), if lost.writes == 1 { "is" } else { "are" });
        format!("{writes}{height}, {are} gone; none was promised to survive a power cut")
    });
    torn.chain(lost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_on_disk() {
        let dir = tempfile::tempdir().expect("a folder");
        let config = config(Backend::File(dir.path().join("s")), Params::default());
        drop(merkle::Store::open(config.clone()).expect("a store"));
        for access in [Access::Read, Access::Write] {
            let store = merkle::Store::open(config.clone().with_access(access)).expect("the store");
            assert!(store.cache().is_some(), "{access:?}: the state is paged");
        }
    }

    /// The sentence says where the torn end is now.
    #[test]
    fn a_torn_end_is_told_with_its_place() {
        let dir = tempfile::tempdir().expect("a folder");
        let place = Place::Folder(dir.path().join("s"));
        let backend = || place.backend(&Store::File(PathBuf::new())).expect("a backend");
        let open =
            |access| merkle::Store::open(config(backend(), Params::default()).with_access(access)).expect("a store");
        drop(open(Access::Create));
        let segment = dir.path().join("s/00000000.seg");
        let tear = [fs::read(&segment).expect("a file"), vec![7; 5]].concat();
        fs::write(&segment, &tear).expect("a file");
        let told = |access| lines(open(access).tail(), access).concat();
        assert!(told(Access::Read).ends_with("which belongs to no block and is left in place"));
        assert!(told(Access::Write).contains("cut off and kept in "));
        fs::write(&segment, &tear).expect("a file");
        let mut tail = open(Access::Write).tail().clone();
        tail.torn[0].kept = None;
        assert!(lines(&tail, Access::Write).concat().ends_with("cut off and lost: there was no room to keep it"));
    }
}
