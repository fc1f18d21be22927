//! Rayon where there is work for more than one thread, a plain loop where there is not: handing a small block to other
//! threads costs more than hashing it. Results do not depend on which of the two ran.
//!
//! Left alone, rayon cuts work in about as many pieces as are sure to be used, some per thread. Whoever becomes idle while
//! the last of them is under way waits for milliseconds, so work is cut as small as is cheap.

use core::fmt;

use std::sync::Arc;

/// Is told, by the thread that calls the store, which parts of [`Store::prepare`](crate::Store::prepare) and
/// [`Store::apply`](crate::Store::apply) threads share; on one thread these are the parts that more would share. The rest of
/// a call one thread does, but for what a state on disk reads and keeps at hand.
///
/// It is told under the store's locks: it must neither use the store nor wait for anybody who does. Parts are not in each
/// other, and each that begins ends, unless the store panics.
pub trait ForkJoinObserver: Send + Sync {
    /// A part begins, which falls into at most so many pieces.
    fn fork(&self, pieces: usize);
    /// That part has ended.
    fn join(&self);
}

/// The [`ForkJoinObserver`] of a store, if it has any; see [`StoreConfig::with_fork_join_observer`](crate::StoreConfig::with_forks).
#[derive(Clone, Default)]
pub struct ForkJoin(pub(crate) Option<Arc<dyn ForkJoinObserver>>);

impl fmt::Debug for ForkJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Forks(..)" } else { "Forks(none)" })
    }
}
