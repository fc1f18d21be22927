//! Parallel maps over rayon, and a plain loop where the work is small: waking threads costs more than hashing a small
//! block. Results do not depend on the choice.
//!
//! On its own, rayon cuts work into a few pieces per thread. A thread that becomes idle during the last piece waits for
//! milliseconds, so the work is cut as small as is cheap.

use core::fmt;

use rayon::prelude::*;

use crate::types::{ForkJoin, ForkJoinObserver};

/// Minimum work to be shared, in nanoseconds: waking workers and waiting for them takes about ten microseconds.
pub(crate) const WORTH: usize = 50_000;

/// Work that is not cut further, in nanoseconds.
const LEAF: usize = 50_000;

impl ForkJoin {
    pub(crate) fn par(&self) -> Par<'_> {
        Par(self.0.as_deref())
    }
}

/// Shares work with the current rayon pool, and reports it to the observer.
#[derive(Clone, Copy)]
pub(crate) struct Par<'f>(Option<&'f dyn ForkJoinObserver>);

impl fmt::Debug for Par<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Par")
    }
}

impl Par<'_> {
    /// Shares work without an observer.
    pub(crate) const UNOBSERVED: Self = Self(None);

    /// Maps `items` in order; an item takes about `nanos`.
    pub(crate) fn map<T: Sync, R: Send>(self, items: &[T], nanos: usize, f: impl Fn(&T) -> R + Sync + Send) -> Vec<R> {
        self.map_range(items.len(), nanos, |at| f(&items[at]))
    }

    /// Maps `0..len` in order; an item takes about `nanos`.
    pub(crate) fn map_range<R: Send>(self, len: usize, nanos: usize, f: impl Fn(usize) -> R + Sync + Send) -> Vec<R> {
        if len * nanos < WORTH {
            return (0..len).map(f).collect();
        }
        let leaf = (LEAF / nanos.max(1)).max(1);
        self.observe(len.div_ceil(leaf), || {
            if rayon::current_num_threads() > 1 {
                (0..len).into_par_iter().with_max_len(leaf).map(f).collect()
            } else {
                (0..len).map(f).collect()
            }
        })
    }

    /// Runs serial work that more threads would share, and reports it as shared: `pieces` pieces, `nanos` in all.
    pub(crate) fn observe_as_shared<R>(self, pieces: usize, nanos: usize, work: impl FnOnce() -> R) -> R {
        if nanos < WORTH { work() } else { self.observe(pieces, work) }
    }

    /// Runs two closures, in parallel if that is worth it. `one` is serial; `many` shares `pieces` pieces of `nanos` in
    /// all.
    ///
    /// In parallel they are reported as one part; on one thread each reports its own.
    pub(crate) fn join<A: Send, B: Send>(
        self,
        (pieces, nanos): (usize, usize),
        one: impl FnOnce(Self) -> A + Send,
        many: impl FnOnce(Self) -> B + Send,
    ) -> (A, B) {
        if nanos < WORTH || rayon::current_num_threads() < 2 {
            return (one(self), many(self));
        }
        self.observe(1 + pieces, || rayon::join(|| one(Self::UNOBSERVED), || many(Self::UNOBSERVED)))
    }

    /// Runs shared work of this many pieces between the observer's calls.
    pub(crate) fn observe<R>(self, pieces: usize, work: impl FnOnce() -> R) -> R {
        // A single piece is not shared.
        let Some(observer) = self.0.filter(|_| pieces > 1) else { return work() };
        observer.fork(pieces);
        let result = work();
        observer.join();
        result
    }
}
