//! Rayon where there is work for more than one thread, a plain loop where there is not: handing a small block to other
//! threads costs more than hashing it. Results do not depend on which of the two ran.
//!
//! Left alone, rayon cuts work in about as many pieces as are sure to be used, some per thread. Whoever becomes idle while
//! the last of them is under way waits for milliseconds, so work is cut as small as is cheap.

use core::fmt;
use std::sync::Arc;

use rayon::prelude::*;

/// Work of fewer nanoseconds is not worth sharing: waking workers and waiting for them takes about ten microseconds.
pub(crate) const WORTH: usize = 50_000;

/// Work of about so many nanoseconds is not cut any further.
const LEAF: usize = 50_000;

/// Is told, by the thread that calls the store, which parts of [`Store::prepare`](crate::Store::prepare) and
/// [`Store::apply`](crate::Store::apply) threads share; on one thread these are the parts that more would share. The rest of
/// a call one thread does, but for what a state on disk reads and keeps at hand.
///
/// It is told under the store's locks: it must neither use the store nor wait for anybody who does. Parts are not in each
/// other, and each that begins ends, unless the store panics.
pub trait Forks: Send + Sync {
    /// A part begins, which falls into at most so many pieces.
    fn fork(&self, pieces: usize);
    /// That part has ended.
    fn join(&self);
}

/// The [`Forks`] of a store, if it has any; see [`StoreConfig::with_forks`](crate::StoreConfig::with_forks).
#[derive(Clone, Default)]
pub struct ForksOf(pub(crate) Option<Arc<dyn Forks>>);

impl fmt::Debug for ForksOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Forks(..)" } else { "Forks(none)" })
    }
}

impl ForksOf {
    pub(crate) fn par(&self) -> Par<'_> {
        Par(self.0.as_deref())
    }
}

/// Shares work with the current rayon pool, and says so.
#[derive(Clone, Copy)]
pub(crate) struct Par<'f>(Option<&'f dyn Forks>);

impl fmt::Debug for Par<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Par")
    }
}

impl Par<'_> {
    /// Shares work that nobody is told of.
    pub(crate) const UNTOLD: Self = Self(None);

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
        self.tell(len.div_ceil(leaf), || {
            if rayon::current_num_threads() > 1 {
                (0..len).into_par_iter().with_max_len(leaf).map(f).collect()
            } else {
                (0..len).map(f).collect()
            }
        })
    }

    /// Does what one thread does and more threads would share in so many pieces, of about so many nanoseconds in all.
    pub(crate) fn as_shared<R>(self, pieces: usize, nanos: usize, work: impl FnOnce() -> R) -> R {
        if nanos < WORTH { work() } else { self.tell(pieces, work) }
    }

    /// Does two things, beside each other if there are threads for it and they are worth it: `one` is for one thread, `many` is
    /// shared in so many pieces, of about so many nanoseconds in all. Beside each other they are told as one part, on one
    /// thread each tells its own.
    pub(crate) fn beside<A: Send, B: Send>(
        self,
        (pieces, nanos): (usize, usize),
        one: impl FnOnce(Self) -> A + Send,
        many: impl FnOnce(Self) -> B + Send,
    ) -> (A, B) {
        if nanos < WORTH || rayon::current_num_threads() < 2 {
            return (one(self), many(self));
        }
        self.tell(1 + pieces, || rayon::join(|| one(Self::UNTOLD), || many(Self::UNTOLD)))
    }

    /// Does what threads share in so many pieces.
    pub(crate) fn tell<R>(self, pieces: usize, work: impl FnOnce() -> R) -> R {
        // One piece is for one thread.
        let Some(forks) = self.0.filter(|_| pieces > 1) else { return work() };
        forks.fork(pieces);
        let result = work();
        forks.join();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backend, Delta, Store, StoreConfig};
    use std::{
        sync::{Mutex, OnceLock},
        thread::ThreadId,
    };

    /// Pieces of parts that have begun, zero for one that has ended.
    #[derive(Default)]
    struct Heard(Mutex<Vec<usize>>, OnceLock<ThreadId>);

    impl Heard {
        fn hear(&self, pieces: usize) {
            let caller = self.1.get_or_init(|| std::thread::current().id());
            assert_eq!(*caller, std::thread::current().id(), "who calls the store tells");
            self.0.lock().unwrap().push(pieces);
        }
    }

    impl Forks for Heard {
        fn fork(&self, pieces: usize) {
            assert!(pieces > 1, "one piece is not shared");
            self.hear(pieces);
        }

        fn join(&self) {
            self.hear(0);
        }
    }

    #[test]
    fn every_part_that_begins_ends_before_another_does_and_small_blocks_have_none() {
        for threads in [1, 2, 5] {
            let heard = Arc::new(Heard::default());
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let config = StoreConfig::new(Backend::Mem).with_forks(Arc::clone(&heard) as _);
                let mut store = Store::open(config).unwrap();
                for (height, keys) in [(0u64, 40_000u32), (1, 40_000), (2, 10)] {
                    let mut delta = Delta::new();
                    (0..keys).for_each(|key| delta.put(&key.to_le_bytes(), &height.to_le_bytes()));
                    let prepared = store.prepare(delta, height).unwrap();
                    let of_root = core::mem::take(&mut *heard.0.lock().unwrap());
                    store.apply(prepared).unwrap().write().unwrap();
                    let of_move = core::mem::take(&mut *heard.0.lock().unwrap());
                    for heard in [&of_root, &of_move] {
                        assert!(heard.as_chunks::<2>().0.iter().all(|[begun, ended]| *begun > 0 && *ended == 0));
                        assert!(heard.len().is_multiple_of(2));
                    }
                    // Also where one thread does what more would share.
                    let parts = (of_root.len() / 2, of_move.len() / 2);
                    assert!(if keys > 10 { parts.0 >= 4 && parts.1 >= 1 } else { parts == (0, 0) }, "{parts:?}");
                }
            });
        }
    }
}
