//! Installed filters: cursors over heights and over the pool's events. Bounded in number, and removed when not asked for.

use super::ids;
use alloy_rpc_types_eth::Filter;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Subject of a filter, and its place there.
#[derive(Clone, Debug)]
pub(super) enum Follows {
    /// Logs of the blocks from a place on.
    Logs { filter: Box<Filter>, at: Cursor },
    /// Blocks from a place on.
    Blocks { at: Cursor },
    /// Transactions that the pool admits, after its event `cursor`.
    Pending { cursor: u64 },
}

/// Place in a chain that may go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Height of the next block.
    pub(super) next: u64,
    /// Number of times that the chain had gone back.
    pub(super) returns: u64,
}

#[derive(Debug)]
struct Installed {
    follows: Follows,
    asked: Instant,
}

/// All filters of a node.
#[derive(Debug)]
pub(super) struct Filters {
    max: usize,
    timeout: Duration,
    installed: Mutex<HashMap<String, Installed>>,
}

impl Filters {
    pub(super) fn new(max: usize, timeout: Duration) -> Self {
        Self { max, timeout, installed: Mutex::default() }
    }

    /// Installs a filter and returns its name; `None` if there are too many.
    pub(super) fn install(&self, follows: Follows) -> Option<String> {
        let now = Instant::now();
        let mut installed = self.installed.lock();
        if installed.len() >= self.max {
            installed.retain(|_, filter| now.duration_since(filter.asked) < self.timeout);
        }
        if installed.len() >= self.max {
            return None;
        }
        let name = ids::random();
        installed.insert(name.clone(), Installed { follows, asked: now });
        Some(name)
    }

    /// Subject of a filter; `None` if it is not installed, or not any more.
    pub(super) fn get(&self, name: &str) -> Option<Follows> {
        let now = Instant::now();
        let mut installed = self.installed.lock();
        let is_old = now.duration_since(installed.get(name)?.asked) >= self.timeout;
        if is_old {
            installed.remove(name);
            return None;
        }
        let filter = installed.get_mut(name)?;
        filter.asked = now;
        Some(filter.follows.clone())
    }

    /// Moves a filter on.
    pub(super) fn advance(&self, name: &str, follows: Follows) {
        if let Some(filter) = self.installed.lock().get_mut(name) {
            filter.follows = follows;
        }
    }

    /// Removes a filter, and returns true if it was installed.
    pub(super) fn remove(&self, name: &str) -> bool {
        self.installed.lock().remove(name).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_bounded_and_expire() {
        let filters = Filters::new(2, Duration::from_millis(20));
        let install = || filters.install(Follows::Blocks { at: Cursor::default() });
        let (one, two) = (install().expect("room"), install().expect("room"));
        assert!(one != two && install().is_none(), "there are two");
        assert!(filters.remove(&one) && !filters.remove(&one));
        assert!(install().is_some());
        assert!(filters.get(&two).is_some());
        std::thread::sleep(Duration::from_millis(30));
        assert!(filters.get(&two).is_none(), "no question came");
        assert!(install().is_some(), "old ones make room");
    }
}
