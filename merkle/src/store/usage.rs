//! Figures of a store: memory, cache and reads.

use super::handle::Store;
use crate::{
    state::State,
    types::{CacheUse, MemoryUse, ReadUse},
};

impl Store {
    /// Cache figures; `None` if the state is resident.
    pub fn cache(&self) -> Option<CacheUse> {
        match &self.core().state {
            State::Resident(_) => None,
            State::Paged(paged) => {
                let (hits, misses) = paged.cache_counts();
                Some(CacheUse { hits, misses })
            }
        }
    }

    /// Figures of reads; `None` if the state is resident, or its backend reads by itself.
    pub fn reads(&self) -> Option<ReadUse> {
        match &self.core().state {
            State::Resident(_) => None,
            State::Paged(_) => self.shared.log.reads(),
        }
    }

    /// Memory of the store. Takes time in proportion to a hundredth of the number of keys.
    pub fn memory(&self) -> MemoryUse {
        let (core, mut memory) = (self.core(), MemoryUse::default());
        match &core.state {
            State::Resident(state) => state.memory(&mut memory),
            State::Paged(paged) => paged.memory(&mut memory),
        }
        memory.tree = core.tree.memory();
        core.history.iter().for_each(|undo| undo.memory(&mut memory));
        memory
    }
}
