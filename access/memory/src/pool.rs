//! Buffers that return for reuse when dropped.
//!
//! A block's buffers are megabytes. An allocator returns such memory to the system, which clears it for every block anew.

use core::{
    fmt,
    ops::{Deref, DerefMut},
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::panicking,
};

/// A buffer that can be emptied and keeps its memory.
pub trait Reuse: Default {
    /// Empties the buffer, or does nothing if the next user overwrites what is in it.
    fn clear(&mut self);

    /// Capacity, in any unit. A full pool keeps the larger of two buffers; by default the one that it has.
    fn capacity(&self) -> usize {
        0
    }
}

impl<T> Reuse for Vec<T> {
    fn clear(&mut self) {
        self.clear();
    }

    fn capacity(&self) -> usize {
        self.capacity()
    }
}

/// Buffers that wait for their next use, at most a fixed number. A clone is a handle to the same pool.
///
/// [`Self::take`] never waits for a buffer: an empty pool makes a new one. The lock is held for a push or a pop.
pub struct BufferPool<T>(Arc<Kept<T>>);

struct Kept<T> {
    limit: usize,
    buffers: Mutex<Vec<T>>,
}

impl<T> Kept<T> {
    /// The buffers; nothing panics while they are locked, and a list is whole at any moment.
    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> BufferPool<T> {
    /// Buffers that a pool of [`Default`] keeps.
    pub const LIMIT: usize = 4;

    /// An empty pool that keeps at most `limit` buffers.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Kept { limit, buffers: Mutex::default() }))
    }
}

impl<T: Reuse> BufferPool<T> {
    /// Takes a buffer out, or makes a new one if there is none. It returns when it is dropped.
    #[must_use]
    pub fn take(&self) -> Pooled<T> {
        let buffer = self.0.lock().pop().unwrap_or_default();
        Pooled { buffer, pool: Some(self.clone()) }
    }

    /// Number of buffers that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Returns true if no buffer waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps `buffer`; in a full pool only instead of a smaller one. The lock is released before any buffer is dropped.
    fn put(&self, mut buffer: T) {
        buffer.clear();
        let mut kept = self.0.lock();
        if kept.len() < self.0.limit {
            kept.push(buffer);
            return;
        }
        if let Some(smallest) = kept.iter_mut().min_by_key(|kept| kept.capacity())
            && smallest.capacity() < buffer.capacity()
        {
            core::mem::swap(smallest, &mut buffer);
        }
        drop(kept);
    }
}

impl<T> Default for BufferPool<T> {
    fn default() -> Self {
        Self::new(Self::LIMIT)
    }
}

impl<T> Clone for BufferPool<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for BufferPool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool").field("limit", &self.0.limit).finish_non_exhaustive()
    }
}

/// A buffer that returns to its [`BufferPool`] when dropped, emptied.
///
/// A buffer made by [`From`], [`Default`] or [`Clone`] has no pool. One that is dropped while its thread panics does not
/// return, since it may be half changed.
#[derive(Default)]
pub struct Pooled<T: Reuse> {
    buffer: T,
    pool: Option<BufferPool<T>>,
}

impl<T: Reuse> From<T> for Pooled<T> {
    fn from(buffer: T) -> Self {
        Self { buffer, pool: None }
    }
}

impl<T: Reuse + Clone> Clone for Pooled<T> {
    fn clone(&self) -> Self {
        self.buffer.clone().into()
    }
}

impl<T: Reuse + fmt::Debug> fmt::Debug for Pooled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.buffer.fmt(f)
    }
}

impl<T: Reuse> Deref for Pooled<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.buffer
    }
}

impl<T: Reuse> DerefMut for Pooled<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.buffer
    }
}

impl<T: Reuse> Drop for Pooled<T> {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take()
            && !panicking()
        {
            pool.put(core::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_buffers_return_empty_and_copies_do_not() {
        let pool = BufferPool::<Vec<u64>>::default();
        let mut buffer = pool.take();
        buffer.extend(0..1000);
        let (at, copy) = (buffer.as_ptr(), buffer.clone());
        drop(buffer);
        assert_eq!(copy.len(), 1000);
        drop(copy);
        assert_eq!(pool.len(), 1);
        let again = pool.take();
        assert!(again.is_empty() && again.capacity() >= 1000 && again.as_ptr() == at);
        assert_eq!(pool.take().capacity(), 0, "only one was returned");
    }

    #[test]
    fn a_pool_keeps_no_more_than_its_limit() {
        let pool = BufferPool::<Vec<u64>>::new(3);
        drop((0..8).map(|_| pool.clone().take()).collect::<Vec<_>>());
        assert_eq!(pool.len(), 3);
    }

    #[test]
    fn a_full_pool_keeps_the_larger_buffers() {
        let pool = BufferPool::<Vec<u8>>::new(1);
        let sizes = [10, 1000, 100];
        let buffers = sizes.map(|size| {
            let mut buffer = pool.take();
            buffer.reserve_exact(size);
            buffer
        });
        drop(buffers);
        assert_eq!((pool.len(), pool.take().capacity()), (1, 1000));
    }

    #[test]
    fn a_buffer_that_is_dropped_in_a_panic_does_not_return() {
        let pool = BufferPool::<Vec<u8>>::default();
        let used = pool.clone();
        let ended = std::thread::spawn(move || {
            let _buffer = used.take();
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(ended.join().is_err());
        assert!(pool.is_empty());
    }
}
