//! A consensus' own log of what it decided.

mod file;
mod record;

pub use file::{FileJournal, JournalError};

use crate::consensus::{Decided, DecidedBlock, Standing};
use phalanx_engine_api::{BlockId, FatalCause};

/// A log that keeps what was appended, in order. A crash may take a suffix of it, and nothing else.
///
/// Where the engine stands is not in it: the engine stores that together with the state, in one write.
pub trait Journal {
    /// Appends the next height, and returns when it is as durable as the chain wants it.
    ///
    /// # Errors
    /// If it could not be written: it is not decided then.
    fn append(&mut self, block: DecidedBlock) -> Result<(), FatalCause>;
    /// A height, if it was appended. Asked for what the engine lacks after a crash.
    ///
    /// # Errors
    /// If it could not be read, or is not what was written.
    fn block(&self, height: u64) -> Result<Option<DecidedBlock>, FatalCause>;
    /// The newest.
    fn last(&self) -> Option<&DecidedBlock>;
}

/// A log in memory: for tests, and for chains that start over.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal {
    blocks: Vec<DecidedBlock>,
}

impl MemoryJournal {
    /// Loses everything from a height on.
    pub fn lose_from(&mut self, height: u64) {
        self.blocks.retain(|block| block.meta.height < height);
    }
}

impl Journal for MemoryJournal {
    fn append(&mut self, block: DecidedBlock) -> Result<(), FatalCause> {
        self.blocks.push(block);
        Ok(())
    }

    fn block(&self, height: u64) -> Result<Option<DecidedBlock>, FatalCause> {
        Ok(place(height).and_then(|place| self.blocks.get(place)).cloned())
    }

    fn last(&self) -> Option<&DecidedBlock> {
        self.blocks.last()
    }
}

/// Where a height stands in a list of all.
fn place(height: u64) -> Option<usize> {
    usize::try_from(height.checked_sub(1)?).ok()
}

/// Where a consensus with this log stands, if it prunes nothing.
pub(crate) fn standing(journal: &impl Journal) -> Standing {
    let last = journal.last().map(|block| Decided { height: block.meta.height, id: block.meta.id });
    Standing { first: 1, last }
}

/// Height and name of the newest decided block.
pub(crate) fn tip(journal: &impl Journal) -> (u64, BlockId) {
    journal.last().map_or((0, BlockId::default()), |block| (block.meta.height, block.meta.id))
}
