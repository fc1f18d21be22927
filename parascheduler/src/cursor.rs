//! Deals the sources of a graph out to workers, in chunks.

use core::ops::Range;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Claims on the sources of a DAG, in their order.
///
/// Ranked sources are claimed one by one at first: each may take as long as all others, so a claim should delay no second
/// one. Further down they weigh less. Sources without rank are claimed a chunk at a time. Then each worker has a region of
/// its own, and continues with another's once that is empty. For a block's other stages left the data of neighbouring
/// transactions in one core's cache or on its node. A worker's line of the cursor stays there too.
///
/// Chunks are long while many sources are left, so that neighbours stay together and the cursor's cache line rarely moves.
/// They get shorter towards the end, so that workers finish together.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    regions: Vec<CachePadded<Region>>,
    ranked: bool,
}

#[derive(Debug, Default)]
struct Region {
    /// May run past the end.
    next: AtomicUsize,
    end: usize,
}

/// Maximum length of a chunk: long enough to keep neighbours on one core, short enough to balance (see `SHARE`).
pub(crate) const CHUNK: usize = 64;

/// A worker claims at most one part in `SHARE` of its even share of the sources that are left.
const SHARE: usize = 4;

/// The first 128 ranked sources are claimed one by one, the next 64 two by two, the next 64 three by three, and so on.
const HEAVY: usize = 64;

/// Minimum length of a region, if there is more than one.
const MIN_REGION: usize = SHARE * CHUNK;

impl Cursor {
    /// Begins a run of `total` sources: from the first on if they are `ranked`, else each worker from its own region on.
    pub(crate) fn reset(&mut self, total: usize, workers: usize, ranked: bool) {
        self.ranked = ranked;
        let regions = if ranked { 1 } else { (total / MIN_REGION).clamp(1, workers) };
        self.regions.clear();
        self.regions.extend((0..regions).map(|region| {
            let [start, end] = [region, region + 1].map(|region| total * region / regions);
            CachePadded::new(Region { next: AtomicUsize::new(start), end })
        }));
    }

    /// Claims the next chunk for a worker; empty when all sources are claimed.
    #[inline]
    pub(crate) fn claim(&self, worker: usize, workers: usize) -> Range<usize> {
        // A worker that has finished its region meets the owner of the next one there, and other workers that have finished.
        let sharers = (workers / self.regions.len()).max(2.min(workers));
        let (before, after) = self.regions.split_at(worker % self.regions.len());
        after.iter().chain(before).find_map(|region| region.claim(sharers, self.ranked)).unwrap_or_default()
    }
}

impl Region {
    /// Claims a chunk. Relaxed suffices: claims only have to be disjoint, and the begin of the run published what sources read.
    #[inline]
    fn claim(&self, sharers: usize, ranked: bool) -> Option<Range<usize>> {
        let seen = self.next.load(Ordering::Relaxed);
        if seen >= self.end {
            return None;
        }
        let most = if ranked { (seen / HEAVY).clamp(1, CHUNK) } else { CHUNK };
        let size = ((self.end - seen) / (SHARE * sharers)).clamp(1, most);
        let begin = self.next.fetch_add(size, Ordering::Relaxed);
        (begin < self.end).then(|| begin..(begin + size).min(self.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All chunks that the workers claim in turn.
    fn chunks(total: usize, workers: usize, ranked: bool) -> Vec<(usize, Range<usize>)> {
        let mut cursor = Cursor::default();
        cursor.reset(7, 3, false);
        cursor.reset(total, workers, ranked);
        let turns = (0..workers).cycle().map(|worker| (worker, cursor.claim(worker, workers)));
        let claimed: Vec<_> = turns.take_while(|(_, chunk)| !chunk.is_empty()).collect();
        assert!((0..workers).all(|worker| cursor.claim(worker, workers).is_empty()));
        claimed
    }

    const CASES: [(usize, usize); 7] = [(0, 2), (1, 8), (63, 2), (64, 1), (1000, 3), (50_000, 2), (50_000, 300)];

    #[test]
    fn ranked_sources_are_claimed_in_order_and_one_by_one_at_first() {
        for (total, workers) in CASES {
            let mut at = 0;
            for (_, chunk) in chunks(total, workers, true) {
                assert_eq!(chunk.start, at);
                assert!(chunk.len() <= 1.max(at / HEAVY).min(CHUNK), "{chunk:?}");
                assert!(chunk.len() > 1 || at < 2 * HEAVY || total - at < 2 * SHARE * workers, "{chunk:?}");
                at = chunk.end;
            }
            assert_eq!(at, total);
        }
    }

    #[test]
    fn chunks_of_a_region_are_in_order_and_shrink() {
        for (total, workers) in [(0, 2), (63, 2), (64, 1), (500, 8), (50_000, 1)] {
            let (mut at, mut last) = (0, CHUNK);
            for (_, chunk) in chunks(total, workers, false) {
                assert_eq!(chunk.start, at);
                assert!(chunk.len() <= last);
                (at, last) = (chunk.end, chunk.len());
            }
            assert_eq!(at, total);
        }
    }

    #[test]
    fn each_worker_begins_with_its_own_region_and_none_is_left_out() {
        for (total, workers) in CASES {
            let mut claimed = chunks(total, workers, false);
            for worker in 0..workers.min(total / MIN_REGION) {
                let first = claimed.iter().find(|(claimer, _)| *claimer == worker).map(|(_, chunk)| chunk.start);
                let regions = workers.min(total / MIN_REGION);
                assert_eq!(first, Some(total * worker / regions));
            }
            claimed.sort_by_key(|(_, chunk)| chunk.start);
            let end = claimed.iter().fold(0, |at, (_, chunk)| {
                assert_eq!(chunk.start, at, "no gap and nothing twice");
                chunk.end
            });
            assert_eq!(end, total);
        }
    }
}
