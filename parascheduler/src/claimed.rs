//! Sources that one worker has claimed, in a ring, each prefetched twice before it runs.

use crate::{cursor::CHUNK, dag::TxIndex, job::Lookahead};

/// Transactions that run between the first prefetch for a source ([`Lookahead::Far`]) and the source itself.
///
/// The shortest transactions take some tens of nanoseconds each, a cache line from memory one or two hundred; and a core has
/// only so many lines in flight.
pub(crate) const FAR: usize = 16;

/// The same for the second prefetch ([`Lookahead::Near`]).
const NEAR: usize = FAR / 2;

/// Capacity of the ring: a chunk fits in while fewer than [`FAR`] sources are left. A power of two.
const ROOM: usize = (FAR + CHUNK).next_power_of_two();

/// Sources that a worker has claimed and not yet run, in order.
#[derive(Debug)]
pub(crate) struct Claimed {
    ring: [TxIndex; ROOM],
    first: usize,
    len: usize,
}

impl Claimed {
    pub(crate) const fn new() -> Self {
        Self { ring: [TxIndex(0); ROOM], first: 0, len: 0 }
    }

    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    #[inline]
    const fn get(&self, at: usize) -> TxIndex {
        self.ring[(self.first + at) % ROOM]
    }

    /// Returns the source that runs after [`NEAR`] - 1 others.
    #[inline]
    pub(crate) fn near(&self) -> Option<TxIndex> {
        (self.len >= NEAR).then(|| self.get(NEAR - 1))
    }

    /// Adds at most one chunk, while fewer than [`FAR`] sources are left.
    #[inline]
    pub(crate) fn add(&mut self, chunk: impl Iterator<Item = TxIndex>, mut prefetch: impl FnMut(TxIndex, Lookahead)) {
        for tx in chunk {
            debug_assert!(self.len < ROOM, "a chunk is added to fewer than FAR");
            self.ring[(self.first + self.len) % ROOM] = tx;
            if self.len < FAR {
                prefetch(tx, Lookahead::Far);
            }
            if self.len < NEAR {
                prefetch(tx, Lookahead::Near);
            }
            self.len += 1;
        }
    }

    /// Takes the first source, and prefetches for the sources [`FAR`] and [`NEAR`] steps behind it.
    #[inline]
    pub(crate) fn next(&mut self, mut prefetch: impl FnMut(TxIndex, Lookahead)) -> Option<TxIndex> {
        self.len = self.len.checked_sub(1)?;
        let tx = self.get(0);
        self.first += 1;
        if self.len >= FAR {
            prefetch(self.get(FAR - 1), Lookahead::Far);
        }
        if self.len >= NEAR {
            prefetch(self.get(NEAR - 1), Lookahead::Near);
        }
        Some(tx)
    }

    /// Takes all sources, the last first.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = TxIndex> {
        core::iter::from_fn(|| {
            self.len = self.len.checked_sub(1)?;
            Some(self.get(self.len))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_prefetched_far_and_near_ahead() {
        const ALL: u32 = 10 * CHUNK as u32;
        let (mut claimed, mut seen, mut run) = (Claimed::new(), Vec::<(u32, Lookahead)>::new(), Vec::new());
        let mut rest = (0..ALL).map(TxIndex);
        loop {
            if claimed.len() < FAR {
                claimed.add(rest.by_ref().take(CHUNK), |tx, lookahead| seen.push((tx.0, lookahead)));
            }
            let Some(tx) = claimed.next(|tx, lookahead| seen.push((tx.0, lookahead))) else { break };
            let at = |tx, lookahead| seen.iter().position(|call| *call == (tx, lookahead));
            assert!(at(tx.0, Lookahead::Far) < at(tx.0, Lookahead::Near), "{tx:?}");
            // The sources that run next were prefetched, and no others.
            assert!(at((tx.0 + NEAR as u32).min(ALL - 1), Lookahead::Near).is_some());
            assert!(at((tx.0 + FAR as u32 - 1).min(ALL - 1), Lookahead::Far).is_some());
            assert!(
                at(tx.0 + NEAR as u32 + 1, Lookahead::Near).is_none()
                    && at(tx.0 + FAR as u32 + 1, Lookahead::Far).is_none()
            );
            run.push(tx.0);
        }
        assert!(run.into_iter().eq(0..ALL));
        assert_eq!(seen.len(), 2 * ALL as usize, "none twice");
    }

    #[test]
    fn drain_gives_all_sources_that_were_not_run() {
        let mut claimed = Claimed::new();
        for round in 0..3 {
            let first = round * CHUNK as u32;
            claimed.add((first..first + CHUNK as u32).map(TxIndex), |_, _| ());
            assert_eq!(claimed.next(|_, _| ()), Some(TxIndex(first)));
            let rest: Vec<TxIndex> = claimed.drain().collect();
            assert!(rest.into_iter().eq((first + 1..first + CHUNK as u32).rev().map(TxIndex)));
            assert_eq!((claimed.len(), claimed.next(|_, _| ())), (0, None));
        }
    }
}
