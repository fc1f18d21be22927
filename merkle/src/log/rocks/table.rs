//! A large block's extents as a table that the database ingests. Through a batch, the write-ahead log, a memtable and a
//! flush they would be copied five times instead of three, and summed twice; that cost more than all else in
//! persisting.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rocksdb::{IngestExternalFileOptions, Options, SstFileWriter};

/// Bytes of extents from which on a block brings a table, which costs a file and some syncs.
pub(super) const TABLE_BYTES: u64 = 4 << 20;

/// Tables to be ingested.
#[derive(Debug)]
pub(super) struct Tables {
    /// Path of the table until the database has ingested it. If ingesting fails, it is the only copy of the block's
    /// extents.
    path: PathBuf,
    /// True if the file system supports hard links, by which the database ingests a table without a copy.
    links: bool,
}

impl Tables {
    /// Creates it for the database in `dir`; tries hard links.
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

    /// Removes the previous table. After a crash the file may be a second name of a table in use, which must not be
    /// overwritten.
    pub(super) fn clear(&self) -> io::Result<()> {
        fs::remove_file(&self.path).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })
    }

    /// Writes a table of extents, given in the order of their numbers.
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

    /// Options for ingesting the table.
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
    fn a_table_is_ingested_by_linking_or_copying() {
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
