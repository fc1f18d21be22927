//! Looks ahead in a loop, so that it can prefetch what a later step needs.
//!
//! A cache miss takes as long as some hundred instructions, so a loop over scattered memory prefetches several steps ahead.
//! Where an address is itself read from memory, one more stage is further ahead: first the pointer, then its target. The
//! distances are the caller's, as named constants with what was measured: the right one depends on the work of a step.

/// Iterators that look ahead. Implemented for every iterator that can be cloned.
pub trait PrefetchIterator: Iterator + Clone {
    /// Yields every item together with the items that are `distances` steps further, [`None`] past the end.
    ///
    /// Each distance is one more clone of the iterator, which repeats the iterator's own work. No step looks ahead to the
    /// first items; [`Ahead::primed`] does. An iterator that yields again after its end should be fused first.
    ///
    /// ```
    /// use phalanx_memory::PrefetchIterator;
    ///
    /// let steps: Vec<_> = [1, 2, 3, 4].into_iter().lookahead([2, 1]).collect();
    /// assert_eq!(steps, [
    ///     (1, [Some(3), Some(2)]),
    ///     (2, [Some(4), Some(3)]),
    ///     (3, [None, Some(4)]),
    ///     (4, [None, None]),
    /// ]);
    /// ```
    #[inline]
    fn lookahead<const N: usize>(self, distances: [usize; N]) -> Ahead<Self, N> {
        let ahead = distances.map(|distance| {
            let mut ahead = self.clone();
            if let Some(last) = distance.checked_sub(1) {
                ahead.nth(last);
            }
            ahead
        });
        Ahead { items: self, ahead, distances }
    }

    /// Yields every item, after the item `distance` steps further went to `prefetch`.
    ///
    /// [`Self::lookahead`] with one distance, for a loop whose body does not borrow what `prefetch` does.
    #[inline]
    fn prefetched(self, distance: usize, mut prefetch: impl FnMut(Self::Item)) -> impl Iterator<Item = Self::Item> {
        self.lookahead([distance]).map(move |(item, [ahead])| {
            ahead.into_iter().for_each(&mut prefetch);
            item
        })
    }
}

impl<I: Iterator + Clone> PrefetchIterator for I {}

/// Every item of an iterator with the items at fixed distances ahead. See [`PrefetchIterator::lookahead`].
#[derive(Clone, Debug)]
pub struct Ahead<I, const N: usize> {
    items: I,
    ahead: [I; N],
    distances: [usize; N],
}

impl<I: Iterator + Clone, const N: usize> Ahead<I, N> {
    /// Hands the first items, to which no step looks ahead, to `prefetch`: for each distance as many items as it is long.
    ///
    /// Stages come in the order of `distances`. Each call gets one item, at the place of its stage, so that one closure
    /// serves this and the loop. Worth its cost in short loops.
    #[inline]
    #[must_use]
    pub fn primed(self, mut prefetch: impl FnMut([Option<I::Item>; N])) -> Self {
        for (stage, distance) in self.distances.into_iter().enumerate() {
            for item in self.items.clone().take(distance) {
                let mut items = [const { None }; N];
                items[stage] = Some(item);
                prefetch(items);
            }
        }
        self
    }
}

impl<I: Iterator, const N: usize> Iterator for Ahead<I, N> {
    type Item = (I::Item, [Option<I::Item>; N]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let item = self.items.next()?;
        Some((item, self.ahead.each_mut().map(I::next)))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}

impl<I: ExactSizeIterator, const N: usize> ExactSizeIterator for Ahead<I, N> {}

/// Hands the item `distance` places behind `at` to `prefetch`, if there is one.
///
/// For loops that know their index in a slice, such as parallel ones. There it costs less than another iterator.
#[inline]
pub fn prefetch_ahead<'a, T>(items: &'a [T], at: usize, distance: usize, prefetch: impl FnOnce(&'a T)) {
    if let Some(item) = items.get(at + distance) {
        prefetch(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_comes_once_with_the_items_ahead_of_it() {
        let items: Vec<usize> = (0..20).collect();
        for distance in 0..25 {
            let mut seen = Vec::new();
            let prefetched: Vec<usize> =
                items.iter().prefetched(distance, |ahead| seen.push(*ahead)).copied().collect();
            assert_eq!(prefetched, items);
            assert_eq!(seen, items[distance.min(20)..], "distance {distance}");
        }
    }

    #[test]
    fn priming_covers_exactly_the_items_that_no_step_looks_ahead_to() {
        for len in 0..12 {
            let mut seen = [vec![], vec![], vec![]];
            let mut prefetch = |items: [Option<usize>; 3]| {
                items.into_iter().zip(&mut seen).for_each(|(item, seen)| seen.extend(item));
            };
            let steps = (0..len).lookahead([6, 4, 2]).primed(&mut prefetch);
            assert_eq!(steps.len(), len);
            steps.for_each(|(_, ahead)| prefetch(ahead));
            seen.iter().for_each(|seen| assert!(seen.iter().copied().eq(0..len), "{seen:?} of {len}"));
        }
    }

    #[test]
    fn lookahead_continues_after_steps_that_were_taken_apart() {
        let mut steps = (0..9).lookahead([2]);
        let first: Vec<_> = steps.by_ref().take(4).map(|(_, [ahead])| ahead).collect();
        assert_eq!(first, [Some(2), Some(3), Some(4), Some(5)]);
        assert_eq!(steps.next(), Some((4, [Some(6)])));
    }

    #[test]
    fn nothing_is_ahead_of_the_end_of_a_slice() {
        let mut seen = Vec::new();
        (0..5).for_each(|at| prefetch_ahead(&[10, 11, 12, 13, 14], at, 3, |item| seen.push(*item)));
        assert_eq!(seen, [13, 14]);
    }
}
