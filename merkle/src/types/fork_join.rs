//! The observer of fork-join work, for programs that account for what threads share.

use core::fmt;

use std::sync::Arc;

/// Observer of the parts of [`Store::prepare`](crate::Store::prepare) and [`Store::apply`](crate::Store::apply) that
/// threads share.
///
/// The thread that calls the store calls it; on one thread it hears of the parts that more threads would share. The
/// rest of a call is serial, except for reads and caching of a paged state.
///
/// The calls come under the store's locks: an implementation must neither use the store nor wait for a thread that
/// does. Parts do not nest, and every part that begins ends, unless the store panics.
pub trait ForkJoinObserver: Send + Sync {
    /// Called when a part begins, which has at most `pieces` pieces.
    fn fork(&self, pieces: usize);
    /// Called when the part ends.
    fn join(&self);
}

/// Holder of a store's [`ForkJoinObserver`], if there is one; see
/// [`StoreConfig::with_fork_join_observer`](crate::StoreConfig::with_fork_join_observer).
#[derive(Clone, Default)]
pub struct ForkJoin(pub(crate) Option<Arc<dyn ForkJoinObserver>>);

impl fmt::Debug for ForkJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Forks(..)" } else { "Forks(none)" })
    }
}
