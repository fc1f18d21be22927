//! A journal in a file: a log with one block in each group.
//!
//! A block is synced before it counts as decided, and marked as promised behind that. So a crash can only tear the block behind
//! the mark. Damage before it is reported, and the file is left alone.

use super::{Journal, place};
use crate::{
    append::Place,
    consensus::DecidedBlock,
    wal::{Sync, Wal, WalError},
};
use core::fmt::Display;
use phalanx_engine_api::{BlockId, FatalCause};
use std::path::PathBuf;

/// First bytes of a journal.
const MAGIC: &[u8; 8] = b"PHXJRNL3";

/// A log of decided blocks in an append-only file of its own. A block is synced before it counts as decided.
///
/// Memory holds the place of each block, and the whole last one. Opening takes time in proportion to the file, and cuts off an
/// end that was never promised, which it keeps in a file beside the journal.
#[derive(Debug)]
pub struct FileJournal {
    log: Wal,
    /// Place of each block, from the first height on.
    places: Vec<Place>,
    last: Option<DecidedBlock>,
}

impl FileJournal {
    /// Opens a journal, or creates an empty one if there is no file.
    ///
    /// # Errors
    /// [`WalError`]. A damaged file is left as it is.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, WalError> {
        let (mut places, mut last) = (Vec::new(), None);
        let log = Wal::scan(path.into(), MAGIC, Sync::Always, |place, group| {
            let block = decoded(&group).filter(|block| follows(last.as_ref(), block));
            places.push(place);
            last = block;
            last.is_some()
        })?;
        Ok(Self { log, places, last })
    }

    /// Number of bytes that were cut off when the journal was opened.
    #[must_use]
    pub const fn torn(&self) -> u64 {
        self.log.torn()
    }

    fn failed(&self, why: impl Display) -> FatalCause {
        FatalCause::Io(format!("the journal {}: {why}", self.log.path().display()))
    }
}

/// The block of a group.
fn decoded(group: &[alloy_primitives::Bytes]) -> Option<DecidedBlock> {
    if let [block] = group { DecidedBlock::decode(block) } else { None }
}

/// True if the block is the next behind the last.
fn follows(last: Option<&DecidedBlock>, block: &DecidedBlock) -> bool {
    let (height, id) = last.map_or((0, BlockId::default()), |last| (last.meta.height, last.meta.id));
    (block.meta.height, block.meta.parent) == (height + 1, id)
}

impl Journal for FileJournal {
    /// Returns when the block is synced. After a failure, appending is refused until the journal is opened again.
    fn append(&mut self, block: DecidedBlock) -> Result<(), FatalCause> {
        if !follows(self.last.as_ref(), &block) {
            return Err(self.failed(format_args!("the block of height {} is not the next", block.meta.height)));
        }
        let (place, bytes) = (self.log.place(), block.encode().map_err(|error| self.failed(error))?);
        self.log.append(&[bytes.into()]).map_err(|error| FatalCause::Io(error.to_string()))?;
        self.places.push(place);
        self.last = Some(block);
        Ok(())
    }

    fn block(&self, height: u64) -> Result<Option<DecidedBlock>, FatalCause> {
        let Some(place) = place(height).and_then(|at| self.places.get(at)) else { return Ok(None) };
        let group = self.log.read(place).map_err(|error| self.failed(error))?;
        let block = group.as_deref().and_then(decoded).filter(|block| block.meta.height == height);
        let damaged = || FatalCause::Corrupt(format!("the journal {} at byte {}", self.log.path().display(), place.at));
        block.ok_or_else(damaged).map(Some)
    }

    fn last(&self) -> Option<&DecidedBlock> {
        self.last.as_ref()
    }
}
