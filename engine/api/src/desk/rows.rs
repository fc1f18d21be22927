//! Committed blocks that an engine can still go back to.

use crate::{Committed, ExecId};
use std::collections::BTreeMap;

/// A committed block, and what the engine keeps of it.
#[derive(Clone, Debug)]
pub struct Row<T> {
    /// What is said about it, with its own block's name in `meta`.
    pub committed: Committed,
    /// What the engine keeps of it.
    pub value: T,
}

/// The newest committed block and those below it. There is always one: genesis, or where state sync began.
#[derive(Clone, Debug)]
pub struct Rows<T> {
    tip: Row<T>,
    /// By height, all lower than the tip's.
    below: BTreeMap<u64, Row<T>>,
    /// Heights that are kept, the tip's among them.
    window: u64,
}

impl<T> Rows<T> {
    /// The oldest block that is known, as the tip. All that is pushed is kept.
    #[must_use]
    pub const fn new(oldest: Row<T>) -> Self {
        Self { tip: oldest, below: BTreeMap::new(), window: u64::MAX }
    }

    /// Puts the next block on top. Whatever is at its height or above makes way.
    pub fn push(&mut self, row: Row<T>) {
        let old = core::mem::replace(&mut self.tip, row);
        self.below.insert(old.committed.height, old);
        drop(self.below.split_off(&self.tip.committed.height));
        self.trim();
    }

    /// Makes an earlier block the tip again. A height that is not there changes nothing.
    pub fn rewind(&mut self, height: u64) {
        if let Some(row) = self.below.remove(&height) {
            self.tip = row;
            drop(self.below.split_off(&height));
        }
    }

    /// The newest.
    #[must_use]
    pub const fn tip(&self) -> &Row<T> {
        &self.tip
    }

    /// The block at a height.
    #[must_use]
    pub fn at(&self, height: u64) -> Option<&Row<T>> {
        if height == self.tip.committed.height { Some(&self.tip) } else { self.below.get(&height) }
    }

    /// The block of an execution. Takes time in proportion to the rows above it.
    #[must_use]
    pub fn find(&self, exec: ExecId) -> Option<&Row<T>> {
        self.iter().rev().find(|row| row.committed.exec == exec)
    }

    /// All of them, oldest first.
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
