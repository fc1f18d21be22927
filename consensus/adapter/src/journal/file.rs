//! A journal in a file.
//!
//! A block is synced before it counts as decided, and marked as promised behind that. So a crash can only tear the record behind
//! the mark. Nothing is searched for: what users store cannot pass for a record. Damage is reported and left alone.

use super::{Journal, place};
use crate::{
    append::{
        HEAD, Link, Mark, Place, START, Tail, Unfit, Unopened, frame, keep, length, link, open_or_create, promise,
        put_at, read_at, read_mark, sync_folder, unframe,
    },
    consensus::DecidedBlock,
};
use core::{fmt::Display, ops::RangeInclusive};
use phalanx_engine_api::{BlockId, FatalCause};
use std::{
    fs::File,
    io::{self, BufReader, Read, Seek as _, SeekFrom},
    path::PathBuf,
};

/// First bytes of a journal.
const MAGIC: &[u8; 8] = b"PHXJRNL2";

/// Reason why a journal cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file cannot be opened, read or written.
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
    /// The file is no journal, one of another version, or its first bytes are damaged.
    #[error("{path} is no journal of this version, or its first bytes are damaged: it is left as it is")]
    Format {
        /// Path of the file.
        path: PathBuf,
    },
    /// Both marks of what was promised are damaged. A crash cannot do that.
    #[error("the journal {path} has no readable mark of its end: restore it, or let the node sync from others")]
    Unmarked {
        /// Path of the file.
        path: PathBuf,
    },
    /// A promised record is damaged or missing. A crash cannot do that.
    #[error(
        "the journal {path} is damaged at byte {at}, and lacks the blocks {} to {}: restore it, or let the node sync from others",
        lost.start(), lost.end()
    )]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the damage, in bytes.
        at: u64,
        /// Heights from the damaged record to the last that was promised, or to itself if it does not follow.
        lost: RangeInclusive<u64>,
    },
}

/// End of a journal that was cut off when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Offset at which the journal ends now, in bytes.
    pub at: u64,
    /// Height of the block whose record was not whole.
    pub height: u64,
    /// Number of bytes that were cut off.
    pub bytes: u64,
    /// File that keeps them; `None` if there were none.
    pub kept: Option<PathBuf>,
    /// True if the record had been synced, so that the file lost a decided block after that.
    ///
    /// A disk that acknowledges what it does not keep does this, or a restored copy that is too short. The node gets the block
    /// from others.
    pub promised: bool,
}

/// A log in an append-only file of its own. A block is synced before it counts as decided.
///
/// Opening cuts off an end that is not whole, keeps it in a file beside the journal, and reports it: [`Self::torn`]. Only the
/// last record can be torn. Damage before it is an error, and so is damage inside it once it was synced.
///
/// Memory holds eight bytes per block, and the whole last block; opening needs memory for one more. It takes time in proportion
/// to the file, damaged or not.
#[derive(Debug)]
pub struct FileJournal {
    file: File,
    path: PathBuf,
    records: Records,
    torn: Option<Torn>,
    /// True after a failed write: the end of the file is unknown then.
    broken: bool,
}

/// Contents of a file.
#[derive(Debug, Default)]
struct Records {
    /// End of each record, in bytes, from the first height on.
    ends: Vec<u64>,
    last: Option<DecidedBlock>,
    /// Link of the last record.
    link: Link,
}

impl Records {
    fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(START as u64)
    }

    const fn height(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Place of the next record.
    fn place(&self) -> Place {
        Place { at: self.end(), after: self.link }
    }

    /// Mark of the last record.
    fn mark(&self) -> Mark {
        let begin = self.ends.iter().rev().nth(1).copied().unwrap_or(START as u64);
        Mark { height: self.height(), begin, end: self.end() }
    }

    /// True if the block is the next.
    fn precede(&self, block: &DecidedBlock) -> bool {
        let last = self.last.as_ref().map_or((0, BlockId::default()), |last| (last.meta.height, last.meta.id));
        (block.meta.height, block.meta.parent) == (last.0 + 1, last.1)
    }

    fn push(&mut self, block: DecidedBlock, length: u64, link: Link) {
        self.ends.push(self.end() + length);
        (self.last, self.link) = (Some(block), link);
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
        let file = open_or_create(&path, MAGIC).map_err(|unopened| match unopened {
            Unopened::Locked => JournalError::Locked { path: path.clone() },
            Unopened::Io(source) => failed(source),
        })?;
        (&file).seek(SeekFrom::Start(0)).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let mut reader = BufReader::with_capacity(1 << 16, &file);
        let mut beginning = Vec::with_capacity(START);
        (&mut reader).take(START as u64).read_to_end(&mut beginning).map_err(failed)?;
        let mark = read_mark(&beginning, MAGIC).map_err(|unfit| match unfit {
            Unfit::Format => JournalError::Format { path: path.clone() },
            Unfit::Damaged => JournalError::Unmarked { path: path.clone() },
        })?;
        let mut records = Records::default();
        let follow = replay(&mut reader, size, &mut records).map_err(failed)?;
        let (at, height) = (records.end(), records.height() + 1);
        let tail = match follow {
            true => Tail::of(&file, at, size, &mark).map_err(failed)?,
            // Its checksums fit, so it was written here, by a fault of the program.
            false => Tail::Damaged,
        };
        let torn = match tail {
            Tail::Whole => None,
            Tail::Damaged => {
                return Err(JournalError::Corrupt { path, at, lost: height..=mark.height.max(height) });
            }
            Tail::Torn { promised } => {
                let kept = (size > at).then(|| keep(&file, &path, at)).transpose().map_err(failed)?;
                file.set_len(at).map_err(failed)?;
                if promised {
                    // The mark of the lost record goes before the other one is written: one of them is always whole.
                    let replaced = put_at(&file, Mark::page(height), &records.mark().encode());
                    replaced.and_then(|()| file.sync_all()).map_err(failed)?;
                }
                Some(Torn { at, height, bytes: size.saturating_sub(at), kept, promised })
            }
        };
        let journal = Self { file, path: path.clone(), records, torn, broken: false };
        promise(&journal.file, &journal.records.mark()).map_err(failed)?;
        sync_folder(&path).map_err(failed)?;
        Ok(journal)
    }

    /// End that was cut off when the journal was opened; `None` if it was whole.
    pub const fn torn(&self) -> Option<&Torn> {
        self.torn.as_ref()
    }

    /// Writes a record behind the last.
    fn write(&self, record: &[u8]) -> io::Result<()> {
        put_at(&self.file, self.records.end(), record)?;
        self.file.sync_data()
    }

    /// Marks the last record as promised. The next sync makes the mark durable.
    fn put_mark(&self) -> io::Result<()> {
        put_at(&self.file, Mark::page(self.records.height()), &self.records.mark().encode())
    }

    /// Reads the record at a place, in order from 0.
    fn read(&self, place: usize) -> io::Result<Option<DecidedBlock>> {
        let begin = |place: usize| place.checked_sub(1).map_or(START as u64, |before| self.records.ends[before]);
        let (from, to) = (begin(place), self.records.ends[place]);
        let mut after = Link::default();
        if let Some(before) = place.checked_sub(1) {
            let mut head = [0; HEAD];
            read_at(&self.file, begin(before), &mut head)?;
            after = link(&head);
        }
        let mut bytes = vec![0; (to - from) as usize];
        read_at(&self.file, from, &mut bytes)?;
        Ok(unframe(&bytes, &Place { at: from, after }).and_then(|(body, _)| DecidedBlock::decode(body)))
    }

    fn failed(&self, why: impl Display) -> FatalCause {
        FatalCause::Io(format!("the journal {}: {why}", self.path.display()))
    }
}

impl Drop for FileJournal {
    fn drop(&mut self) {
        // The mark of the last record is durable after a clean end. Its loss costs a report, so a failure is ignored.
        let _ = self.file.sync_data();
        // Closing would unlock as well, but not while a freshly forked process still holds the descriptor. If unlocking
        // fails, closing is all that is left.
        let _ = self.file.unlock();
    }
}

/// Reads all whole records, up to the first that is not. Returns false if a whole one does not follow those before it.
fn replay(reader: &mut impl Read, length: u64, records: &mut Records) -> io::Result<bool> {
    loop {
        let place = records.place();
        let Some(bytes) = next(reader, length.saturating_sub(place.at), &place)? else { return Ok(true) };
        let Some((body, link)) = unframe(&bytes, &place) else { return Ok(true) };
        let Some(block) = DecidedBlock::decode(body) else { return Ok(true) };
        if !records.precede(&block) {
            return Ok(false);
        }
        records.push(block, bytes.len() as u64, link);
    }
}

/// Reads the next record; `None` if its head is not whole or `left` bytes end before it.
fn next(reader: &mut impl Read, left: u64, place: &Place) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; HEAD];
    if left < HEAD as u64 {
        return Ok(None);
    }
    reader.read_exact(&mut head)?;
    let Some(length) = length(&head, place).filter(|length| *length <= left) else { return Ok(None) };
    let mut bytes = head.to_vec();
    bytes.resize(length as usize, 0);
    reader.read_exact(&mut bytes[HEAD..])?;
    Ok(Some(bytes))
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
        let record = frame(&self.records.place(), |out| block.encode_to(out));
        let (record, link) = record.ok_or_else(|| self.failed("the block is too long for a record"))?;
        if let Err(error) = self.write(&record) {
            self.broken = true;
            return Err(self.failed(error));
        }
        self.records.push(block, record.len() as u64, link);
        if let Err(error) = self.put_mark() {
            self.broken = true;
            return Err(self.failed(error));
        }
        Ok(())
    }

    fn block(&self, height: u64) -> Result<Option<DecidedBlock>, FatalCause> {
        let Some(place) = place(height).filter(|place| *place < self.records.ends.len()) else {
            return Ok(None);
        };
        let block = self.read(place).map_err(|error| self.failed(error))?;
        let block = block.filter(|block| block.meta.height == height);
        let damaged = || {
            let from = place.checked_sub(1).map_or(START as u64, |before| self.records.ends[before]);
            FatalCause::Corrupt(format!("the journal {} at byte {from}", self.path.display()))
        };
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
    use std::fs::OpenOptions;

    #[test]
    fn a_failed_write_decides_nothing_and_ends_the_journal() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal");
        drop(FileJournal::open(&path).expect("a new journal"));
        // A file that refuses writes.
        let file = File::open(&path).expect("a file");
        let mut journal = FileJournal { file, path, records: Records::default(), torn: None, broken: false };
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
