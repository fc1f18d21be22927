//! A journal in a file.

use super::{Journal, record};
use crate::DecidedBlock;
use phalanx_engine_api::{BlockId, FatalCause};
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

/// Why a journal cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file cannot be opened, read or cut.
    #[error("the journal {path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another process has it.
    #[error("the journal {path} is in use by another process")]
    Locked {
        /// Which file.
        path: PathBuf,
    },
    /// A record in the middle is damaged, or does not follow the one before it. A crash cannot do that.
    #[error("the journal {path} is damaged at byte {at}: restore it, or let the node sync from others")]
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// Where.
        at: u64,
    },
}

/// A log in a file of its own that only grows. A block is synced before it counts as decided, so a crash can only tear the last
/// record; that is cut off when the file is opened.
///
/// All blocks are in memory, too. Opening takes time in proportion to the file.
#[derive(Debug)]
pub struct FileJournal {
    file: File,
    path: PathBuf,
    blocks: Vec<DecidedBlock>,
    /// Whether a write has failed: what the file ends with is unknown then.
    broken: bool,
}

impl FileJournal {
    /// Opens a journal, or begins one where there is no file.
    ///
    /// # Errors
    /// [`JournalError`]. A file that is damaged is left as it is.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        let path = path.into();
        let failed = |source| JournalError::Io { path: path.clone(), source };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => JournalError::Locked { path: path.clone() },
            TryLockError::Error(source) => failed(source),
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let (blocks, end) = replay(&bytes).map_err(|at| JournalError::Corrupt { path: path.clone(), at: at as u64 })?;
        if end < bytes.len() {
            file.set_len(end as u64).map_err(failed)?;
        }
        file.seek(SeekFrom::Start(end as u64)).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        sync_folder(&path).map_err(failed)?;
        Ok(Self { file, path, blocks, broken: false })
    }
}

/// A file that was just made is there after a power cut if its folder is synced.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// All whole records, and where they end. Outside: where a record is damaged that is not the last, or one that does not follow.
fn replay(bytes: &[u8]) -> Result<(Vec<DecidedBlock>, usize), usize> {
    let (mut blocks, mut at) = (Vec::<DecidedBlock>::new(), 0);
    while let Some((block, length)) = record::read(&bytes[at..]) {
        let (height, parent) = blocks.last().map_or((0, BlockId::default()), |last| (last.meta.height, last.meta.id));
        if (block.meta.height, block.meta.parent) != (height + 1, parent) {
            return Err(at);
        }
        blocks.push(block);
        at += length;
    }
    // What is torn is the end: nothing whole comes after it.
    let later = (at + 1..bytes.len()).any(|later| record::read(&bytes[later..]).is_some());
    if later { Err(at) } else { Ok((blocks, at)) }
}

impl Journal for FileJournal {
    /// Returns when the block is synced. After a failure nothing can be appended until the journal is opened again.
    fn append(&mut self, block: DecidedBlock) -> Result<(), FatalCause> {
        let failed = |why: &str| FatalCause::Io(format!("the journal {}: {why}", self.path.display()));
        if self.broken {
            return Err(failed("an earlier write failed; open it again"));
        }
        let record = record::write(&block).ok_or_else(|| failed("the block is too long for a record"))?;
        let written = self.file.write_all(&record).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            self.broken = true;
            return Err(FatalCause::Io(format!("the journal {}: {error}", self.path.display())));
        }
        self.blocks.push(block);
        Ok(())
    }

    fn block(&self, height: u64) -> Option<&DecidedBlock> {
        self.blocks.get(usize::try_from(height.checked_sub(1)?).ok()?)
    }

    fn last(&self) -> Option<&DecidedBlock> {
        self.blocks.last()
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
        // A file that takes no writes.
        let file = File::open(&path).expect("a file");
        let mut journal = FileJournal { file, path, blocks: Vec::new(), broken: false };
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
