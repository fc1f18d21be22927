//! Places for what transactions leave behind, one each: whoever runs a transaction fills its place, and nobody gathers.
//!
//! Nobody prepares the places either, so that their memory is first touched by those who fill them. Which ones were filled
//! is for the workers to remember.
//!
//! Sound because the scheduler runs each transaction of a DAG once at most.

use core::{
    cell::UnsafeCell,
    mem::{ManuallyDrop, MaybeUninit},
};
use phalanx_memory::prefetch_write_all;

/// A place per transaction, not filled until it has run. What is in them is lost, not dropped, unless it is taken out.
pub(crate) struct Slots<T>(Vec<UnsafeCell<MaybeUninit<T>>>);

/// What was in the places.
pub(crate) enum Filled<T> {
    /// Of every place, in order.
    All(Vec<T>),
    /// `None` where a place was not filled.
    Some(Vec<Option<T>>),
}

impl<T> Filled<T> {
    /// What is in each place, in order.
    pub(crate) fn into_options(self) -> Vec<Option<T>> {
        match self {
            Self::All(values) => values.into_iter().map(Some).collect(),
            Self::Some(values) => values,
        }
    }
}

#[expect(unsafe_code, reason = "places that different threads fill")]
// SAFETY: a shared place is reached through `put` alone, whose callers have it for themselves.
unsafe impl<T: Send> Sync for Slots<T> {}

impl<T> Slots<T> {
    /// So many places. O(1): none is touched.
    pub(crate) fn empty(len: usize) -> Self {
        let mut places = Vec::with_capacity(len);
        #[expect(unsafe_code, reason = "places that nobody prepares")]
        // SAFETY: there is room for so many, and what may be uninitialized is.
        unsafe {
            places.set_len(len);
        }
        Self(places)
    }

    /// Asks for the memory of a place that is about to be filled.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        prefetch_write_all(&self.0[index]);
    }

    /// Fills a place.
    ///
    /// # Safety
    /// No other call has this place, before or at the same time.
    #[inline]
    #[expect(unsafe_code, reason = "places that different threads fill")]
    pub(crate) unsafe fn put(&self, index: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe { (*self.0[index].get()).write(value) };
    }

    /// What is in the places. O(1) if all were filled.
    ///
    /// # Safety
    /// `filled` names each place that was filled, once, and no other.
    #[expect(unsafe_code, reason = "places that were not prepared")]
    pub(crate) unsafe fn take<'a>(self, filled: impl Iterator<Item = &'a [u32]> + Clone) -> Filled<T> {
        let Self(places) = self;
        if filled.clone().map(<[u32]>::len).sum::<usize>() == places.len() {
            let mut places = ManuallyDrop::new(places);
            let (start, len, room) = (places.as_mut_ptr(), places.len(), places.capacity());
            // SAFETY: a vector's parts, of elements of the same layout, all of which are initialized: as many as there are
            // were filled, each once.
            return Filled::All(unsafe { Vec::from_raw_parts(start.cast(), len, room) });
        }
        let mut values = Vec::new();
        values.resize_with(places.len(), || None);
        for at in filled.flatten().map(|at| *at as usize) {
            // SAFETY: it was filled, and it is read once.
            values[at] = Some(unsafe { (*places[at].get()).assume_init_read() });
        }
        Filled::Some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// What three threads leave in `len` places, each filling what its remainder says up to `end`.
    #[expect(unsafe_code, reason = "each thread has places of its own")]
    fn filled(len: usize, end: usize) -> (Vec<Option<usize>>, Arc<()>) {
        let (slots, counted) = (Slots::empty(len), Arc::new(()));
        let places = [0, 1, 2].map(|first| (first..end as u32).step_by(3).collect::<Vec<_>>());
        let fill = |at: &u32| {
            let value = (*at as usize, Arc::clone(&counted));
            // SAFETY: no two threads have the same remainder.
            unsafe { slots.put(value.0, value) };
        };
        std::thread::scope(|scope| {
            for places in &places {
                scope.spawn(|| places.iter().for_each(&fill));
            }
        });
        // SAFETY: these and no others were filled.
        let values = unsafe { slots.take(places.iter().map(Vec::as_slice)) };
        assert_eq!(matches!(values, Filled::All(_)), end == len);
        let values = values.into_options();
        assert_eq!(Arc::strong_count(&counted), end + 1, "all are there, once");
        (values.into_iter().map(|value| value.map(|(at, _)| at)).collect(), counted)
    }

    #[test]
    fn threads_fill_their_places_and_nothing_is_lost() {
        for (len, end) in [(100, 100), (100, 90), (100, 0), (1, 1), (0, 0)] {
            let (values, counted) = filled(len, end);
            assert!(values.into_iter().eq((0..len).map(|at| (at < end).then_some(at))), "{end} of {len}");
            assert_eq!(Arc::strong_count(&counted), 1, "all were dropped");
        }
    }
}
