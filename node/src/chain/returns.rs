//! How often a chain has gone back, and how far: a reader that was ahead reads on from there.

use parking_lot::Mutex;
use std::collections::VecDeque;

/// Number of returns whose heights are kept. A reader that is farther behind begins at the lowest of all.
const KEPT: usize = 1_024;

/// Heights that a chain has gone back to.
#[derive(Debug, Default)]
pub(super) struct Returns(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    count: u64,
    /// The newest returns, with the lowest height of all older ones in front.
    heights: VecDeque<u64>,
}

impl Returns {
    pub(super) fn add(&self, height: u64) {
        let Known { count, heights } = &mut *self.0.lock();
        *count += 1;
        heights.push_back(height);
        if heights.len() > KEPT
            && let (Some(oldest), Some(next)) = (heights.pop_front(), heights.front_mut())
        {
            *next = oldest.min(*next);
        }
    }

    /// Number of returns so far, and the lowest height of those behind the first `seen`; `None` if there are none.
    pub(super) fn since(&self, seen: u64) -> (u64, Option<u64>) {
        let Known { count, heights } = &*self.0.lock();
        let unseen = usize::try_from(count.saturating_sub(seen)).unwrap_or(usize::MAX);
        (*count, heights.iter().rev().take(unseen).min().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_return_that_a_reader_has_not_seen_is_known() {
        let returns = Returns::default();
        assert_eq!(returns.since(0), (0, None));
        [5, 3, 9].into_iter().for_each(|height| returns.add(height));
        assert_eq!([0, 1, 2, 3].map(|seen| returns.since(seen)), [(3, Some(3)), (3, Some(3)), (3, Some(9)), (3, None)]);
        (0..KEPT as u64).for_each(|_| returns.add(50));
        assert_eq!(returns.since(3).1, Some(3), "too far behind: lower than need be");
        assert_eq!(returns.since(100).1, Some(50));
    }
}
