//! Timers of a replica: an event that comes due is void if its timer was cancelled or set again.

use std::collections::BTreeMap;

/// Timers that run, each with the number of its setting.
#[derive(Clone, Debug)]
pub struct Timers<T> {
    running: BTreeMap<T, u64>,
    settings: u64,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Timers<T> {
    /// No timer runs.
    #[must_use]
    pub const fn new() -> Self {
        Self { running: BTreeMap::new(), settings: 0 }
    }
}

impl<T: Copy + Ord> Timers<T> {
    /// Sets a timer, in place of one of the same name. Returns the number that its event has to carry.
    pub fn set(&mut self, timer: T) -> u64 {
        self.settings += 1;
        self.running.insert(timer, self.settings);
        self.settings
    }

    /// Cancels a timer.
    pub fn cancel(&mut self, timer: T) {
        self.running.remove(&timer);
    }

    /// Ends a timer whose event has come. Returns false if the event is void.
    pub fn fires(&mut self, timer: T, number: u64) -> bool {
        let fires = self.running.get(&timer) == Some(&number);
        if fires {
            self.running.remove(&timer);
        }
        fires
    }

    /// Cancels all timers: the power is cut.
    pub fn clear(&mut self) {
        self.running.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_setting_of_a_running_timer_fires() {
        let mut timers = Timers::default();
        let (first, second, other) = (timers.set('a'), timers.set('a'), timers.set('b'));
        assert!(!timers.fires('a', first) && timers.fires('a', second) && !timers.fires('a', second));
        timers.cancel('b');
        assert!(!timers.fires('b', other));
        let last = timers.set('b');
        timers.clear();
        assert!(!timers.fires('b', last));
    }
}
