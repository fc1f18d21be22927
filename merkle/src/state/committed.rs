//! The committed state, resident or paged.

use super::{digester::KeyDigester, paged::Paged, resident::Resident};

/// Committed state.
#[derive(Debug)]
pub(crate) enum State {
    Resident(Resident),
    Paged(Paged),
}

impl State {
    /// Number of keys.
    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::Resident(state) => state.len(),
            Self::Paged(state) => state.len(),
        }
    }

    /// Hash function that overlays find keys with.
    pub(crate) const fn digester(&self) -> KeyDigester {
        match self {
            Self::Resident(state) => state.digester(),
            Self::Paged(state) => state.digester(),
        }
    }
}
