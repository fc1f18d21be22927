//! A large block's extents as a table that the database takes in as it is. On the way through a batch, the log ahead of the
//! tables, a memtable and a flush they would be copied five times and summed twice, and not three times and once; that cost
//! more than all else that persisting does.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rocksdb::{IngestExternalFileOptions, Options, SstFileWriter};

/// Bytes of extents from which on a block brings a table, which costs a file and some syncs.
pub(super) const TABLE_BYTES: u64 = 4 << 20;

/// How tables get into a database.
#[derive(Debug)]
pub(super) struct Tables {
    /// The one that is being written, until the database has taken it in. If that fails, it is all there is of its block.
    path: PathBuf,
    /// Whether a file can have two names, which is how the database takes in one without copying it.
    links: bool,
}

impl Tables {
    /// For the database in `dir`; tries whether files can be linked there.
    pub(super) fn new(dir: &Path) -> Self {
        let second = dir.join("link.tmp");
        let _ = fs::remove_file(&second);
        let links = fs::hard_link(dir.join("CURRENT"), &second).is_ok();
        let _ = fs::remove_file(second);
        Self { path: dir.join("extents.tmp"), links }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes room for another one. Where a process died, what is there may be a second name of a table in use, which must
    /// not be written over.
    pub(super) fn clear(&self) -> io::Result<()> {
        fs::remove_file(&self.path).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })
    }

    /// Writes one, of extents in order of their numbers.
    pub(super) fn write<'r>(
        &self,
        options: &Options,
        extents: impl Iterator<Item = (u64, &'r [u8])>,
    ) -> Result<(), rocksdb::Error> {
        let mut table = SstFileWriter::create(options);
        table.open(&self.path)?;
        for (number, frame) in extents {
            table.put(number.to_be_bytes(), frame)?;
        }
        table.finish()
    }

    /// How the database is to take it in.
    pub(super) fn how(&self) -> IngestExternalFileOptions {
        let mut how = IngestExternalFileOptions::default();
        how.set_move_files(self.links);
        how
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocksdb::DB;

    #[test]
    fn a_table_is_taken_in_by_linking_or_copying() {
        for links in [true, false] {
            let dir = tempfile::tempdir().expect("a folder");
            let db = DB::open_default(dir.path()).expect("a database");
            let tables = Tables { links, ..Tables::new(dir.path()) };
            for first in [0u64, 10] {
                let extents = [(first, &b"one"[..]), (first + 1, b"two")];
                tables.clear().expect("room");
                tables.write(&Options::default(), extents.into_iter()).expect("a table");
                db.ingest_external_file_opts(&tables.how(), vec![tables.path()]).expect("is taken in");
                assert_eq!(tables.path().exists(), !links);
                for (number, frame) in extents {
                    assert_eq!(db.get(number.to_be_bytes()).expect("readable").as_deref(), Some(frame));
                }
            }
        }
    }
}
