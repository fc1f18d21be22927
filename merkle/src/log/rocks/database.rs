//! RocksDB databases of this store: opened for reading without a change, or for writing.

use super::{
    direct::bypasses_page_cache,
    options::{FAMILIES, META, database_options, family_options, reading_options},
};
use crate::{log::lock, types::Error};
use rocksdb::{ColumnFamilyDescriptor, DB, ErrorKind, MultiThreaded, Options};
use std::{
    path::Path,
    sync::{Arc, atomic::AtomicU64},
};

pub(super) type Db = rocksdb::DBWithThreadMode<MultiThreaded>;

/// Key of the parameters.
pub(super) const PARAMS: &[u8] = b"params";

/// Name of the file that is locked.
pub(super) const LOCK: &str = "store.lock";

/// Files that the database keeps open if little is read; four times as many otherwise. Most systems allow a process
/// 1024.
const OPEN_FILES: i32 = 128;

/// Times that opening for reading is tried: a node that runs replaces files at any moment.
const TRIES: u32 = 16;

/// Row of the parameters of a database that is only read.
///
/// # Errors
/// [`Error::NoStore`] for the database of another program, [`Error::Corrupt`]; errors of [`open_for_reading`].
pub(in crate::log) fn params_row(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let present = families(path, &reading_options())?;
    if !present.iter().any(|name| name == META) {
        return Err(Error::NoStore { path: path.into(), found: "the directory holds the database of another program" });
    }
    let (db, _) = open_for_reading(path)?;
    let row = db.cf_handle(META).map(|meta| db.get_cf(&meta, PARAMS).map_err(|error| typed(path, error)));
    row.transpose().map(Option::flatten)
}

/// Opens the database at a path without changing a byte of it.
pub(super) fn open_for_reading(path: &Path) -> Result<(Db, Arc<AtomicU64>), Error> {
    let open = || {
        let options = reading_options();
        let families = families(path, &options)?;
        let rewritten = Arc::<AtomicU64>::default();
        let descriptors =
            families.iter().map(|name| ColumnFamilyDescriptor::new(name, family_options(name, &rewritten)));
        let db = Db::open_cf_descriptors_read_only(&options, path, descriptors, false);
        db.map(|db| (db, rewritten)).map_err(|error| typed(path, error))
    };
    for _ in 1..TRIES {
        if !lock::is_taken(path, LOCK) {
            break;
        }
        if let Ok(opened) = open() {
            return Ok(opened);
        }
    }
    open()
}

/// Families that a database has: RocksDB insists that every family is opened, also those of a later version of this store.
fn families(path: &Path, options: &Options) -> Result<Vec<String>, Error> {
    if !path.join("CURRENT").exists() {
        return Err(Error::Corrupt { path: path.to_path_buf(), what: "the database's file CURRENT is missing".into() });
    }
    DB::list_cf(options, path).map_err(|error| typed(path, error))
}

/// Opens the database at a path for writing, and creates what is missing of it.
pub(super) fn open_for_writing(path: &Path, past_cache: bool, create: bool) -> Result<(Db, Arc<AtomicU64>), Error> {
    let mut options = database_options(past_cache && bypasses_page_cache(path));
    options.create_if_missing(create);
    options.set_max_open_files(if past_cache { OPEN_FILES } else { 4 * OPEN_FILES });
    let mut all: Vec<String> = FAMILIES.map(String::from).into();
    if path.join("CURRENT").exists() {
        let present = families(path, &options)?;
        all.extend(present.into_iter().filter(|name| !FAMILIES.contains(&name.as_str())));
    }
    let rewritten = Arc::<AtomicU64>::default();
    let descriptors = all.iter().map(|name| ColumnFamilyDescriptor::new(name, family_options(name, &rewritten)));
    let db = Db::open_cf_descriptors(&options, path, descriptors).map_err(|error| typed(path, error))?;
    Ok((db, rewritten))
}

/// Gives RocksDB's errors the types that callers act upon.
pub(super) fn typed(path: &Path, source: rocksdb::Error) -> Error {
    let path = path.to_path_buf();
    let text = source.to_string();
    match source.kind() {
        ErrorKind::IOError if text.contains("lock hold") || text.contains("While lock file") => Error::Locked { path },
        ErrorKind::Corruption => Error::Corrupt { path, what: text },
        // A file that the database's own records name.
        ErrorKind::IOError if text.contains("No such file or directory") => Error::Corrupt { path, what: text },
        _ => Error::Rocks { path, source },
    }
}
