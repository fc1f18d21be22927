//! Purposes of a recording, and the bounds that follow from them.

use crate::memory::ShadowMemory;

/// Purpose of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Access sets: each frame by itself, over its own inputs.
    #[default]
    Frames,
    /// Replays: a transaction with all its calls, over the transaction's inputs.
    Exact {
        /// Number of bytes of calldata, in this and every replay.
        input_len: usize,
        /// True if all replays share the first four bytes of calldata.
        has_selector: bool,
    },
}

impl Mode {
    /// Maximum length of one piece of memory that is followed, in bytes.
    pub(crate) const fn max_region(self) -> usize {
        match self {
            Self::Frames => 1 << 14,
            Self::Exact { .. } => 1 << 11,
        }
    }

    /// A memory that follows 2,048 pieces, or 2^14 bytes.
    pub(crate) const fn memory(self) -> ShadowMemory {
        match self {
            Self::Frames => ShadowMemory::new(2048, usize::MAX),
            Self::Exact { .. } => ShadowMemory::new(1 << 14, 1 << 14),
        }
    }
}
