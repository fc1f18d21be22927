//! Places for what transactions leave behind, one each: whoever runs a transaction fills its place, and nobody gathers.
//!
//! Sound because the scheduler runs each transaction of a DAG once at most.

use core::cell::UnsafeCell;

/// A place per transaction, empty until it has run.
pub(crate) struct Slots<T>(Vec<UnsafeCell<Option<T>>>);

#[expect(unsafe_code, reason = "places that different threads fill")]
// SAFETY: a shared place is reached through `put` alone, whose callers have it for themselves.
unsafe impl<T: Send> Sync for Slots<T> {}

impl<T> Slots<T> {
    /// So many empty places.
    pub(crate) fn empty(len: usize) -> Self {
        Self((0..len).map(|_| UnsafeCell::new(None)).collect())
    }

    /// Fills a place.
    ///
    /// # Safety
    /// No other call has this place at the same time.
    #[inline]
    #[expect(unsafe_code, reason = "places that different threads fill")]
    pub(crate) unsafe fn put(&self, index: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe { *self.0[index].get() = Some(value) }
    }

    /// What is in the places, in order.
    pub(crate) fn into_options(self) -> impl ExactSizeIterator<Item = Option<T>> {
        self.0.into_iter().map(UnsafeCell::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "each thread has places of its own")]
    fn threads_fill_their_places() {
        let slots = Slots::empty(100);
        std::thread::scope(|scope| {
            let slots = &slots;
            for thread in 0..3 {
                // SAFETY: no two threads have the same remainder.
                scope.spawn(move || (thread..90).step_by(3).for_each(|at| unsafe { slots.put(at, at.to_string()) }));
            }
        });
        let expected = (0..100).map(|at: usize| (at < 90).then(|| at.to_string()));
        assert!(slots.into_options().eq(expected));
    }
}
