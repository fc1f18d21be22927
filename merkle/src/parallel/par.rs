//! Rayon where there is work for more than one thread, a plain loop where there is not: handing a small block to other
//! threads costs more than hashing it. Results do not depend on which of the two ran.
//!
//! Left alone, rayon cuts work in about as many pieces as are sure to be used, some per thread. Whoever becomes idle while
//! the last of them is under way waits for milliseconds, so work is cut as small as is cheap.

use core::fmt;

use rayon::prelude::*;

use crate::types::{ForkJoin, ForkJoinObserver};

/// Work of fewer nanoseconds is not worth sharing: waking workers and waiting for them takes about ten microseconds.
pub(crate) const WORTH: usize = 50_000;

/// Work of about so many nanoseconds is not cut any further.
const LEAF: usize = 50_000;

impl ForkJoin {
    pub(crate) fn par(&self) -> Par<'_> {
        Par(self.0.as_deref())
    }
}

/// Shares work with the current rayon pool, and says so.
#[derive(Clone, Copy)]
pub(crate) struct Par<'f>(Option<&'f dyn ForkJoinObserver>);

impl fmt::Debug for Par<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Par")
    }
}

impl Par<'_> {
    /// Shares work that nobody is told of.
    pub(crate) const UNOBSERVED: Self = Self(None);

    /// Maps `items` in order; `nanos` is about what one takes.
    pub(crate) fn map<T: Sync, R: Send>(self, items: &[T], nanos: usize, f: impl Fn(&T) -> R + Sync + Send) -> Vec<R> {
        self.map_range(items.len(), nanos, |at| f(&items[at]))
    }

    /// Maps `0..len` in order; `nanos` is about what one takes.
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

    /// Does what one thread does and more threads would share in so many pieces, of about so many nanoseconds in all.
    pub(crate) fn observe_as_shared<R>(self, pieces: usize, nanos: usize, work: impl FnOnce() -> R) -> R {
        if nanos < WORTH { work() } else { self.observe(pieces, work) }
    }

    /// Does two things, beside each other if there are threads for it and they are worth it: `one` is for one thread, `many` is
    /// shared in so many pieces, of about so many nanoseconds in all. Beside each other they are told as one part, on one
    /// thread each tells its own.
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

    /// Does what threads share in so many pieces.
    pub(crate) fn observe<R>(self, pieces: usize, work: impl FnOnce() -> R) -> R {
        // One piece is for one thread.
        let Some(observer) = self.0.filter(|_| pieces > 1) else { return work() };
        observer.fork(pieces);
        let result = work();
        observer.join();
        result
    }
}
