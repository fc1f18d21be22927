//! Places for the results of transactions, one each: the worker that runs a transaction fills its place, without
//! gathering.
//!
//! The places are not prepared either, so that the workers that fill them touch their memory first. The workers
//! remember which places they filled.
//!
//! Sound because the scheduler runs each transaction of a DAG at most once.

use core::{
    cell::UnsafeCell,
    mem::{ManuallyDrop, MaybeUninit},
};
use phalanx_memory::prefetch_write_all;

/// A place per transaction, filled when it has run. Contents that are not taken out are leaked, not dropped.
pub(crate) struct Slots<T>(Vec<UnsafeCell<MaybeUninit<T>>>);

/// Contents of the places.
pub(crate) enum Filled<T> {
    /// Contents of every place, in order.
    All(Vec<T>),
    /// Contents of each place, `None` where it was not filled.
    Some(Vec<Option<T>>),
}

impl<T> Filled<T> {
    /// Contents of each place, in order.
    pub(crate) fn into_options(self) -> Vec<Option<T>> {
        match self {
            Self::All(values) => values.into_iter().map(Some).collect(),
            Self::Some(values) => values,
        }
    }
}

#[expect(unsafe_code, reason = "places that different threads fill")]
// SAFETY: a shared place is reached through `put` alone, whose caller has it for itself.
unsafe impl<T: Send> Sync for Slots<T> {}

impl<T> Slots<T> {
    /// Creates `len` places. O(1): none is touched.
    pub(crate) fn empty(len: usize) -> Self {
        let mut places = Vec::with_capacity(len);
        #[expect(unsafe_code, reason = "places that are not prepared")]
        // SAFETY: the capacity suffices, and the elements may be uninitialized.
        unsafe {
            places.set_len(len);
        }
        Self(places)
    }

    /// Prefetches a place that is about to be filled.
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

    /// Takes the contents of the places. O(1) if all were filled.
    ///
    /// # Safety
    /// `filled` names each filled place, once, and no other.
    #[expect(unsafe_code, reason = "places that were not prepared")]
    pub(crate) unsafe fn take<'a>(self, filled: impl Iterator<Item = &'a [u32]> + Clone) -> Filled<T> {
        let Self(places) = self;
        if filled.clone().map(<[u32]>::len).sum::<usize>() == places.len() {
            let mut places = ManuallyDrop::new(places);
            let (start, len, room) = (places.as_mut_ptr(), places.len(), places.capacity());
            // SAFETY: a vector's parts, of elements of the same layout, all initialized: as many places as there are
            // were filled, each once.
            return Filled::All(unsafe { Vec::from_raw_parts(start.cast(), len, room) });
        }
        let mut values = Vec::new();
        values.resize_with(places.len(), || None);
        for at in filled.flatten().map(|at| *at as usize) {
            // SAFETY: the place was filled, and is read once.
            values[at] = Some(unsafe { (*places[at].get()).assume_init_read() });
        }
        Filled::Some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Results of three threads in `len` places, each filling the places of its remainder up to `end`.
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
        // SAFETY: exactly these places were filled.
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
