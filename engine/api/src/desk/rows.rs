//! Committed blocks that a rewind can reach.

use crate::id::ExecId;
use crate::status::CommittedTip;
use std::collections::BTreeMap;

/// A committed block, and the engine's value of it.
#[derive(Clone, Debug)]
pub struct Row<T> {
    /// Description of the block, with its own name in `meta`.
    pub committed: CommittedTip,
    /// Value that the engine keeps of it.
    pub value: T,
}

/// The newest committed block and those below it. There is always at least one: genesis, or the start of state sync.
#[derive(Clone, Debug)]
pub struct Rows<T> {
    tip: Row<T>,
    /// Rows by height, all lower than the tip's.
    below: BTreeMap<u64, Row<T>>,
    /// Number of heights that are kept, the tip's included.
    window: u64,
}

impl<T> Rows<T> {
    /// Starts with the oldest known block as the tip. All pushed rows are kept.
    #[must_use]
    pub const fn new(oldest: Row<T>) -> Self {
        Self { tip: oldest, below: BTreeMap::new(), window: u64::MAX }
    }

    /// Pushes the next block. Rows at its height or above are removed.
    pub fn push(&mut self, row: Row<T>) {
        let old = core::mem::replace(&mut self.tip, row);
        self.below.insert(old.committed.height, old);
        drop(self.below.split_off(&self.tip.committed.height));
        self.trim();
    }

    /// Makes an earlier block the tip again. An unknown height changes nothing.
    pub fn rewind(&mut self, height: u64) {
        if let Some(row) = self.below.remove(&height) {
            self.tip = row;
            drop(self.below.split_off(&height));
        }
    }

    /// The newest row.
    #[must_use]
    pub const fn tip(&self) -> &Row<T> {
        &self.tip
    }

    /// The block at a height.
    #[must_use]
    pub fn at(&self, height: u64) -> Option<&Row<T>> {
        if height == self.tip.committed.height { Some(&self.tip) } else { self.below.get(&height) }
    }

    /// Changes the value of the block at a height, if it is kept.
    pub fn change(&mut self, height: u64, change: impl FnOnce(&mut T)) {
        let row = if height == self.tip.committed.height { Some(&mut self.tip) } else { self.below.get_mut(&height) };
        if let Some(row) = row {
            change(&mut row.value);
        }
    }

    /// The block of an execution. Takes time linear in the rows above it.
    #[must_use]
    pub fn find(&self, exec: ExecId) -> Option<&Row<T>> {
        self.iter().rev().find(|row| row.committed.exec == exec)
    }

    /// All rows, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Row<T>> {
        self.below.values().chain(core::iter::once(&self.tip))
    }

    /// Keeps this many heights from now on, at least the tip's.
    pub(super) fn set_window(&mut self, window: u64) {
        self.window = window.max(1);
        self.trim();
    }

    fn trim(&mut self) {
        let lowest = (self.tip.committed.height + 1).saturating_sub(self.window);
        while let Some(oldest) = self.below.first_entry().filter(|oldest| *oldest.key() < lowest) {
            oldest.remove();
        }
    }
}
