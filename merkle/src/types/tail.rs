//! The end of a store's log as opening found it.

use std::path::PathBuf;

/// End of a store's log as opening found it: empty after a clean end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tail {
    /// Torn ends of files: parts of writes that a crash interrupted, or whose bytes never reached the disk.
    pub torn: Vec<Torn>,
    /// Writes that had reached the kernel and are gone, none of which was promised to survive a power cut.
    pub lost: Option<Lost>,
}

impl Tail {
    /// True if nothing was torn or lost.
    pub const fn is_clean(&self) -> bool {
        self.torn.is_empty() && self.lost.is_none()
    }
}

/// Torn end of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Torn {
    /// The file.
    pub file: PathBuf,
    /// Length of its whole part, in bytes.
    pub offset: u64,
    /// Length of the torn part, in bytes.
    pub bytes: u64,
    /// File that has the torn part now; `None` if the store was opened for reading, so that the part is still in place, or
    /// if there was no room for a copy.
    pub kept: Option<PathBuf>,
}

/// Writes that are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// Number of writes: blocks, staged blocks and changes of the tip.
    pub writes: u64,
    /// Height of the tip after the last of them; `None` before the first block.
    pub height: Option<u64>,
}
