use core::ops::Range;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Deals the sources of a DAG out in block order, a chunk at a time.
///
/// Chunks are long while much is left, so that a worker can prefetch and the cursor's cache line rarely moves, and get
/// shorter towards the end, so that workers finish together. Padded because all workers write it.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    next: CachePadded<AtomicUsize>,
}

/// Longest chunk: enough for memory prefetching to hide its latency, short enough to balance (see `SHARE`).
pub(crate) const CHUNK: usize = 64;

/// A worker takes at most one part in `SHARE` of its even share of what is left.
const SHARE: usize = 4;

impl Cursor {
    pub(crate) fn reset(&mut self) {
        *self.next.get_mut() = 0;
    }

    /// Claims the next chunk of `total` sources; empty when all are claimed.
    ///
    /// Relaxed suffices: claims only have to be disjoint. What sources read was published when the run began.
    #[inline]
    pub(crate) fn claim(&self, total: usize, workers: usize) -> Range<usize> {
        let seen = self.next.load(Ordering::Relaxed);
        if seen >= total {
            return total..total;
        }
        let size = ((total - seen) / (SHARE * workers)).clamp(1, CHUNK);
        let begin = self.next.fetch_add(size, Ordering::Relaxed).min(total);
        begin..(begin + size).min(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_tile_the_sources_and_shrink() {
        for (total, workers) in [(0, 2), (1, 8), (63, 2), (64, 1), (1000, 3), (50_000, 2)] {
            let mut cursor = Cursor::default();
            cursor.next.store(7, Ordering::Relaxed);
            cursor.reset();
            let (mut at, mut last) = (0, CHUNK);
            loop {
                let chunk = cursor.claim(total, workers);
                if chunk.is_empty() {
                    break;
                }
                assert_eq!(chunk.start, at);
                assert!(chunk.len() <= last);
                (at, last) = (chunk.end, chunk.len());
            }
            assert_eq!(at, total);
            assert!(cursor.claim(total, workers).is_empty());
        }
    }
}
