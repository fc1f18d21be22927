//! Transactions that wait for another one.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Waiting transactions, lowest first.
pub(crate) type Line = BinaryHeap<Reverse<u32>>;

/// Transactions that wait for one transaction, by the key that it was expected to write.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// A list, since there are few keys at a time.
    lines: Vec<(u32, Line)>,
}

impl Waiters {
    /// Adds a line. O(shorter line · log longer line).
    pub(crate) fn join(&mut self, key: u32, mut line: Line) {
        match self.lines.iter_mut().find(|(of, _)| *of == key) {
            // `append` moves the shorter one into the longer.
            Some((_, known)) => known.append(&mut line),
            None => self.lines.push((key, line)),
        }
    }

    /// Adds one transaction.
    pub(crate) fn push(&mut self, key: u32, tx: u32) {
        match self.lines.iter_mut().find(|(of, _)| *of == key) {
            Some((_, line)) => line.push(Reverse(tx)),
            None => self.lines.push((key, [Reverse(tx)].into())),
        }
    }

    /// All lines, by key.
    pub(crate) fn into_lines(self) -> impl Iterator<Item = (u32, Line)> {
        self.lines.into_iter()
    }
}
