//! Logs of decided blocks, for a consensus without a log of its own.

mod file;

pub use file::FileJournal;

use crate::consensus::{Decided, DecidedBlock, Standing};
use phalanx_engine_api::{BlockId, FatalCause};

/// A log that keeps appended blocks in order. A crash may lose a suffix of it, and nothing else.
///
/// The engine's position is not in it: the engine stores that together with the state, in one write.
pub trait Journal {
    /// Appends the block of the next height. Returns when the block is as durable as the chain requires.
    ///
    /// # Errors
    /// The block could not be written, and is not decided then.
    fn append(&mut self, block: DecidedBlock) -> Result<(), FatalCause>;
    /// Block at a height, if it was appended. Called for heights that the engine lacks after a crash.
    ///
    /// # Errors
    /// The block could not be read, or differs from what was written.
    fn block(&self, height: u64) -> Result<Option<DecidedBlock>, FatalCause>;
    /// Newest block.
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

/// Index of a height in a list of all blocks.
fn place(height: u64) -> Option<usize> {
    usize::try_from(height.checked_sub(1)?).ok()
}

/// Position of a consensus that keeps this log and prunes nothing.
pub(crate) fn standing(journal: &impl Journal) -> Standing {
    let last = journal.last().map(|block| Decided { height: block.meta.height, id: block.meta.id });
    Standing { first: 1, last }
}

/// Height and name of the newest decided block.
pub(crate) fn tip(journal: &impl Journal) -> (u64, BlockId) {
    journal.last().map_or((0, BlockId::default()), |block| (block.meta.height, block.meta.id))
}
