//! A queue of events by time, and by arrival at equal times.

use std::{cmp::Reverse, collections::BinaryHeap};

#[derive(Debug)]
struct Entry<T> {
    at: Reverse<(u64, u64)>,
    event: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// Events to come, by time, and by arrival at equal times.
#[derive(Debug)]
pub struct Queue<T> {
    heap: BinaryHeap<Entry<T>>,
    number: u64,
    now: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Queue<T> {
    /// An empty queue at time zero.
    #[must_use]
    pub const fn new() -> Self {
        Self { heap: BinaryHeap::new(), number: 0, now: 0 }
    }

    /// Time since the beginning, in the unit of the delays.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// Adds an event `delay` from now.
    pub fn after(&mut self, delay: u64, event: T) {
        self.number += 1;
        self.heap.push(Entry { at: Reverse((self.now + delay, self.number)), event });
    }

    /// Returns the next event that is due by `end`, and moves the time.
    pub fn next(&mut self, end: u64) -> Option<T> {
        if self.heap.peek().is_none_or(|entry| entry.at.0.0 > end) {
            self.now = self.now.max(end);
            return None;
        }
        let entry = self.heap.pop()?;
        self.now = entry.at.0.0;
        Some(entry.event)
    }
}
