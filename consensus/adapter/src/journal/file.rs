//! A journal in a file.
//!
//! A block is synced before it counts as decided, so a crash can only tear the last record. Damage anywhere else is
//! reported and left alone.

use super::{
    Journal, place,
    record::{self, HEAD},
};
use crate::consensus::DecidedBlock;
use core::fmt::Display;
use phalanx_engine_api::{BlockId, FatalCause};
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, BufReader, Read, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

/// Reason why a journal cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file cannot be opened, read or truncated.
    #[error("the journal {path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another process holds the file.
    #[error("the journal {path} is in use by another process")]
    Locked {
        /// Path of the file.
        path: PathBuf,
    },
    /// A record in the middle is damaged, or does not follow the one before it. A crash cannot do that.
    #[error("the journal {path} is damaged at byte {at}: restore it, or let the node sync from others")]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the damage, in bytes.
        at: u64,
    },
}

/// A log in an append-only file of its own. A block is synced before it counts as decided. A crash can therefore only
/// tear the last record, which is cut off when the file is opened.
///
/// Memory holds eight bytes per block, and the whole last block. Opening takes time in proportion to the file.
#[derive(Debug)]
pub struct FileJournal {
    file: File,
    path: PathBuf,
    records: Records,
    /// True after a failed write: the end of the file is unknown then.
    broken: bool,
}

/// Contents of a file.
#[derive(Debug, Default)]
struct Records {
    /// End of each record, in bytes, from the first height on.
    ends: Vec<u64>,
    last: Option<DecidedBlock>,
}

impl Records {
    fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// True if the block is the next.
    fn precede(&self, block: &DecidedBlock) -> bool {
        let last = self.last.as_ref().map_or((0, BlockId::default()), |last| (last.meta.height, last.meta.id));
        (block.meta.height, block.meta.parent) == (last.0 + 1, last.1)
    }

    fn push(&mut self, block: DecidedBlock, length: usize) {
        self.ends.push(self.end() + length as u64);
        self.last = Some(block);
    }
}

impl FileJournal {
    /// Opens a journal, or creates an empty one if there is no file.
    ///
    /// # Errors
    /// [`JournalError`]. A damaged file is left as it is.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        let path = path.into();
        let failed = |source| JournalError::Io { path: path.clone(), source };
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => JournalError::Locked { path: path.clone() },
            TryLockError::Error(source) => failed(source),
        })?;
        let records = match replay(&file).map_err(failed)? {
            Ok(records) => records,
            Err(at) => return Err(JournalError::Corrupt { path, at }),
        };
        if records.end() < file.metadata().map_err(failed)?.len() {
            file.set_len(records.end()).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        sync_folder(&path).map_err(failed)?;
        Ok(Self { file, path, records, broken: false })
    }

    /// Writes a record behind the last.
    fn write(&self, record: &[u8]) -> io::Result<()> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(self.records.end()))?;
        file.write_all(record)?;
        file.sync_data()
    }

    /// Reads the bytes between two offsets.
    fn read(&self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let mut file = &self.file;
        let mut bytes = vec![0; (to - from) as usize];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn failed(&self, why: impl Display) -> FatalCause {
        FatalCause::Io(format!("the journal {}: {why}", self.path.display()))
    }
}

impl Drop for FileJournal {
    fn drop(&mut self) {
        // Closing would unlock as well, but not while a freshly forked process still holds the descriptor. If unlocking
        // fails, closing is all that is left.
        let _ = self.file.unlock();
    }
}

/// Syncs the folder, so that a new file survives a power cut.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// Reads all whole records. The inner error is the offset of a damaged record that is not the last, or of one that does
/// not follow.
fn replay(file: &File) -> io::Result<Result<Records, u64>> {
    let mut left = file.metadata()?.len();
    let mut reader = BufReader::new(file);
    let mut records = Records::default();
    loop {
        let at = records.end();
        let bytes = next(&mut reader, left)?;
        let Some((block, length)) = record::read(&bytes) else {
            let mut rest = bytes;
            reader.read_to_end(&mut rest)?;
            // A torn record is the end: nothing whole comes after it.
            let later = (1..rest.len()).any(|later| record::read(&rest[later..]).is_some());
            return Ok(if later { Err(at) } else { Ok(records) });
        };
        if !records.precede(&block) {
            return Ok(Err(at));
        }
        left -= length as u64;
        records.push(block, length);
    }
}

/// Reads the bytes of the next record; fewer than its length if `left` ends before it.
fn next(reader: &mut impl Read, left: u64) -> io::Result<Vec<u8>> {
    let mut head = [0; HEAD];
    if left < HEAD as u64 {
        return Ok(Vec::new());
    }
    reader.read_exact(&mut head)?;
    let mut bytes = head.to_vec();
    if let Some(length) = record::length(&head).filter(|length| *length as u64 <= left - HEAD as u64) {
        bytes.resize(HEAD + length, 0);
        reader.read_exact(&mut bytes[HEAD..])?;
    }
    Ok(bytes)
}

impl Journal for FileJournal {
    /// Returns when the block is synced. After a failure, appending is refused until the journal is opened again.
    fn append(&mut self, block: DecidedBlock) -> Result<(), FatalCause> {
        if self.broken {
            return Err(self.failed("an earlier write failed; open it again"));
        }
        if !self.records.precede(&block) {
            return Err(self.failed(format_args!("the block of height {} is not the next", block.meta.height)));
        }
        let record = record::write(&block).ok_or_else(|| self.failed("the block is too long for a record"))?;
        if let Err(error) = self.write(&record) {
            self.broken = true;
            return Err(self.failed(error));
        }
        self.records.push(block, record.len());
        Ok(())
    }

    fn block(&self, height: u64) -> Result<Option<DecidedBlock>, FatalCause> {
        let ends = &self.records.ends;
        let Some((place, to)) = place(height).and_then(|place| Some((place, *ends.get(place)?))) else {
            return Ok(None);
        };
        let from = place.checked_sub(1).map_or(0, |before| ends[before]);
        let bytes = self.read(from, to).map_err(|error| self.failed(error))?;
        let block = record::read(&bytes).map(|(block, _)| block).filter(|block| block.meta.height == height);
        let damaged = || FatalCause::Corrupt(format!("the journal {} at byte {from}", self.path.display()));
        block.ok_or_else(damaged).map(Some)
    }

    fn last(&self) -> Option<&DecidedBlock> {
        self.records.last.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Bytes;
    use phalanx_engine_api::{BlockEnv, Payload};
    use phalanx_pipeline::BlockMeta;

    #[test]
    fn a_failed_write_decides_nothing_and_ends_the_journal() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal");
        drop(FileJournal::open(&path).expect("a new journal"));
        // A file that refuses writes.
        let file = File::open(&path).expect("a file");
        let mut journal = FileJournal { file, path, records: Records::default(), broken: false };
        let meta = BlockMeta { id: BlockId::default(), parent: BlockId::default(), height: 1 };
        let env = BlockEnv { height: 1, ..BlockEnv::default() };
        let payload = Payload::default().into();
        let block = DecidedBlock { meta, env, payload, proof: Bytes::new(), certificate: None };
        let append = |journal: &mut FileJournal| journal.append(block.clone());
        assert!(matches!(append(&mut journal), Err(FatalCause::Io(_))));
        assert_eq!(journal.last(), None);
        journal.file = OpenOptions::new().append(true).open(&journal.path).expect("a file");
        assert!(matches!(append(&mut journal), Err(FatalCause::Io(why)) if why.contains("open it again")));
    }
}
