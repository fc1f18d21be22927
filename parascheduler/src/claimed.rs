use crate::{Notice, TxIndex, cursor::CHUNK};

/// How many others run before a transaction that is announced the first time, and the second. The shortest take some tens of
/// nanoseconds each, a cache line from memory a hundred or two; and a core has only so many of them on their way.
pub(crate) const FAR: usize = 16;
const NEAR: usize = FAR / 2;

/// A chunk fits in where fewer than [`FAR`] are left.
const ROOM: usize = (FAR + CHUNK).next_power_of_two();

/// Sources that a worker has claimed and not yet run, in order, each announced in time.
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

    /// The one that runs after half as many others as [`FAR`].
    #[inline]
    pub(crate) fn near(&self) -> Option<TxIndex> {
        (self.len >= NEAR).then(|| self.get(NEAR - 1))
    }

    /// Adds a chunk at most to fewer than [`FAR`].
    #[inline]
    pub(crate) fn add(&mut self, chunk: impl Iterator<Item = TxIndex>, mut announce: impl FnMut(TxIndex, Notice)) {
        for tx in chunk {
            debug_assert!(self.len < ROOM, "a chunk to few");
            self.ring[(self.first + self.len) % ROOM] = tx;
            if self.len < FAR {
                announce(tx, Notice::Far);
            }
            if self.len < NEAR {
                announce(tx, Notice::Near);
            }
            self.len += 1;
        }
    }

    /// Takes the first, and announces those whose time it is.
    #[inline]
    pub(crate) fn next(&mut self, mut announce: impl FnMut(TxIndex, Notice)) -> Option<TxIndex> {
        self.len = self.len.checked_sub(1)?;
        let tx = self.get(0);
        self.first += 1;
        if self.len >= FAR {
            announce(self.get(FAR - 1), Notice::Far);
        }
        if self.len >= NEAR {
            announce(self.get(NEAR - 1), Notice::Near);
        }
        Some(tx)
    }

    /// Takes all, the last first.
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
    fn each_is_announced_twice_in_time() {
        const ALL: u32 = 10 * CHUNK as u32;
        let (mut claimed, mut heard, mut run) = (Claimed::new(), Vec::<(u32, Notice)>::new(), Vec::new());
        let mut rest = (0..ALL).map(TxIndex);
        loop {
            if claimed.len() < FAR {
                claimed.add(rest.by_ref().take(CHUNK), |tx, notice| heard.push((tx.0, notice)));
            }
            let Some(tx) = claimed.next(|tx, notice| heard.push((tx.0, notice))) else { break };
            let at = |tx, notice| heard.iter().position(|said| *said == (tx, notice));
            assert!(at(tx.0, Notice::Far) < at(tx.0, Notice::Near), "{tx:?}");
            // Those that run next have been announced, and no others.
            assert!(at((tx.0 + NEAR as u32).min(ALL - 1), Notice::Near).is_some());
            assert!(at((tx.0 + FAR as u32 - 1).min(ALL - 1), Notice::Far).is_some());
            assert!(
                at(tx.0 + NEAR as u32 + 1, Notice::Near).is_none() && at(tx.0 + FAR as u32 + 1, Notice::Far).is_none()
            );
            run.push(tx.0);
        }
        assert!(run.into_iter().eq(0..ALL));
        assert_eq!(heard.len(), 2 * ALL as usize, "nobody twice");
    }

    #[test]
    fn what_others_may_take_is_all_that_was_not_run() {
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
