//! Timers of the worker.

use std::collections::{BTreeMap, BTreeSet};

/// Timers by name. Setting one replaces it.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    due: BTreeSet<(u64, T)>,
    set: BTreeMap<T, u64>,
}

impl<T: Copy + Ord> Timers<T> {
    pub(crate) const fn new() -> Self {
        Self { due: BTreeSet::new(), set: BTreeMap::new() }
    }

    pub(crate) fn set(&mut self, timer: T, at: u64) {
        self.cancel(timer);
        self.set.insert(timer, at);
        self.due.insert((at, timer));
    }

    pub(crate) fn cancel(&mut self, timer: T) {
        if let Some(at) = self.set.remove(&timer) {
            self.due.remove(&(at, timer));
        }
    }

    /// Takes the first timer that is due.
    pub(crate) fn pop(&mut self, now: u64) -> Option<T> {
        let (_, timer) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        self.cancel(timer);
        Some(timer)
    }

    /// Time of the next timer.
    pub(crate) fn next(&self) -> Option<u64> {
        self.due.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_fires_once_at_its_last_setting() {
        let mut timers = Timers::new();
        timers.set('a', 10);
        timers.set('b', 5);
        timers.set('a', 20);
        assert_eq!((timers.next(), timers.pop(4), timers.pop(5), timers.pop(19)), (Some(5), None, Some('b'), None));
        assert_eq!((timers.pop(20), timers.pop(99), timers.next()), (Some('a'), None, None));
        timers.set('c', 1);
        timers.cancel('c');
        assert_eq!(timers.pop(99), None);
    }
}
