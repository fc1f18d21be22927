//! Returns of a chain to earlier heights, with the blocks that left it: a reader that was ahead reads on from there.

use crate::store::Block;
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};

/// Number of returns that are kept. A reader that is farther behind begins at the lowest height of all.
const KEPT: usize = 1_024;

/// Maximum bytes of the blocks that have left; those of the newest return stay. A reader that is farther behind misses their logs.
const BYTES: usize = 16 << 20;

/// Returns of a chain to earlier heights.
#[derive(Debug, Default)]
pub(super) struct Returns(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    count: u64,
    /// The newest returns, with the lowest height of all older ones in front.
    newest: VecDeque<Return>,
    bytes: usize,
}

#[derive(Debug)]
struct Return {
    height: u64,
    /// Blocks with logs that were above, oldest first.
    removed: Arc<[Arc<Block>]>,
    bytes: usize,
}

/// Returns that a reader has not seen, and their effect on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Missed {
    /// Number of returns so far.
    pub(crate) count: u64,
    /// Height of the next block to read.
    pub(crate) next: u64,
    /// Blocks with logs that it has read and that have left the chain.
    pub(crate) removed: Vec<Arc<Block>>,
}

impl Returns {
    pub(super) fn add(&self, height: u64, removed: Arc<[Arc<Block>]>) {
        let known = &mut *self.0.lock();
        let bytes = removed.iter().map(|block| block.memory()).sum();
        known.count += 1;
        known.bytes += bytes;
        known.newest.push_back(Return { height, removed, bytes });
        if known.newest.len() > KEPT
            && let (Some(oldest), Some(next)) = (known.newest.pop_front(), known.newest.front_mut())
        {
            next.height = oldest.height.min(next.height);
            known.bytes -= oldest.bytes;
        }
        let [older @ .., _] = known.newest.make_contiguous() else { return };
        for earlier in older {
            if known.bytes <= BYTES {
                break;
            }
            known.bytes -= earlier.bytes;
            (earlier.removed, earlier.bytes) = (Arc::default(), 0);
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.0.lock().count
    }

    /// Returns for a reader that knows of the first `seen` returns, and has read the blocks below `next`.
    pub(super) fn since(&self, seen: u64, next: u64) -> Missed {
        let Known { count, newest, .. } = &*self.0.lock();
        let unseen = usize::try_from(count.saturating_sub(seen)).unwrap_or(usize::MAX);
        let mut missed = Missed { count: *count, next, removed: Vec::new() };
        for Return { height, removed, .. } in newest.iter().skip(newest.len().saturating_sub(unseen)) {
            missed.removed.extend(removed.iter().filter(|block| block.height() < missed.next).cloned());
            missed.next = missed.next.min(height + 1);
        }
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::alloy::primitives::B256;

    /// A block with a transaction of these bytes.
    fn block(number: u64, bytes: usize) -> Arc<Block> {
        Arc::new(Block::of(number, B256::ZERO, (1, bytes)))
    }

    fn missed(returns: &Returns, seen: u64, next: u64) -> (u64, Vec<u64>) {
        let missed = returns.since(seen, next);
        (missed.next, missed.removed.iter().map(|block| block.height()).collect())
    }

    #[test]
    fn the_lowest_return_that_a_reader_has_not_seen_is_known() {
        let returns = Returns::default();
        assert_eq!(missed(&returns, 0, 20), (20, vec![]));
        [5, 3, 9].into_iter().for_each(|height| returns.add(height, Arc::default()));
        assert_eq!(returns.count(), 3);
        assert_eq!([0, 1, 2, 3].map(|seen| missed(&returns, seen, 20).0), [4, 4, 10, 20]);
        (0..KEPT as u64).for_each(|_| returns.add(50, Arc::default()));
        assert_eq!(missed(&returns, 3, 60).0, 4, "too far behind: lower than need be");
        assert_eq!(missed(&returns, 100, 60).0, 51);
    }

    #[test]
    fn a_reader_misses_the_blocks_that_it_has_read() {
        let returns = Returns::default();
        returns.add(5, [6, 7, 8].map(|height| block(height, 1)).into());
        // These came and went in between.
        returns.add(4, [5, 6, 7].map(|height| block(height, 1)).into());
        assert_eq!(missed(&returns, 0, 8), (5, vec![6, 7, 5]));
        assert_eq!(missed(&returns, 0, 6), (5, vec![5]));
        assert_eq!(missed(&returns, 1, 7), (5, vec![5, 6]));
        assert_eq!(missed(&returns, 2, 5), (5, vec![]));
    }

    #[test]
    fn bytes_of_removed_blocks_are_bounded_and_the_newest_stay() {
        let returns = Returns::default();
        (0..3).for_each(|_| returns.add(1, [block(2, BYTES / 2)].into()));
        assert_eq!(missed(&returns, 0, 3), (2, vec![]), "two are above the bound");
        assert_eq!(missed(&returns, 2, 3), (2, vec![2]));
        returns.add(1, [block(2, 2 * BYTES)].into());
        assert_eq!(missed(&returns, 3, 3), (2, vec![2]));
        assert_eq!(missed(&returns, 2, 3), (2, vec![]));
    }
}
