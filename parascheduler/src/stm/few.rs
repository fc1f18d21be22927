use core::ops::Range;
use std::collections::VecDeque;

/// A deque whose first element lies in it: most hold no other, and then there is no memory to ask for.
///
/// # Invariants
/// * Without a first element there is no other.
#[derive(Debug)]
pub(crate) struct Few<T> {
    first: Option<T>,
    rest: VecDeque<T>,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { first: None, rest: VecDeque::new() }
    }
}

impl<T> Few<T> {
    pub(crate) fn len(&self) -> usize {
        self.rest.len() + usize::from(self.first.is_some())
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        if at == 0 { self.first.as_ref() } else { self.rest.get(at - 1) }
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        if at == 0 { self.first.as_mut() } else { self.rest.get_mut(at - 1) }
    }

    pub(crate) const fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    pub(crate) fn back(&self) -> Option<&T> {
        self.rest.back().or(self.first.as_ref())
    }

    /// Those of `range` that are there.
    pub(crate) fn range(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = &T> {
        range.filter_map(|at| self.get(at))
    }

    /// How many come before the first that `before` does not hold of; it holds of none behind that one.
    pub(crate) fn partition_point(&self, mut before: impl FnMut(&T) -> bool) -> usize {
        match &self.first {
            Some(first) if before(first) => 1 + self.rest.partition_point(before),
            _ => 0,
        }
    }

    /// Puts `value` at a place that is at most the length.
    pub(crate) fn insert(&mut self, at: usize, value: T) {
        if at > 0 {
            self.rest.insert(at - 1, value);
        } else if let Some(second) = self.first.replace(value) {
            self.rest.push_front(second);
        }
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<T> {
        if at > 0 {
            return self.rest.remove(at - 1);
        }
        let second = self.rest.pop_front();
        core::mem::replace(&mut self.first, second)
    }

    /// Exchanges two that are there.
    pub(crate) fn swap(&mut self, one: usize, other: usize) {
        let (low, high) = (one.min(other), one.max(other));
        match (low, &mut self.first) {
            (0, Some(first)) if high > 0 => core::mem::swap(first, &mut self.rest[high - 1]),
            (0, _) => {}
            _ => self.rest.swap(low - 1, high - 1),
        }
    }

    /// Takes out those of `range`, which ends at most at the length.
    pub(crate) fn cut(&mut self, range: Range<usize>) {
        let Range { start, end } = range;
        if start >= end {
            return;
        }
        self.rest.drain(start.saturating_sub(1)..end - 1);
        if start == 0 {
            self.first = self.rest.pop_front();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Does what `step` says to both.
    fn apply(step: u64, few: &mut Few<u64>, deque: &mut VecDeque<u64>) {
        let len = deque.len();
        let (what, at) = (step % 7, (step / 7) as usize % (len + 1));
        match what {
            0..=2 => {
                // Ascending, as chains are.
                let below = at.checked_sub(1).map_or(0, |below| deque[below]);
                few.insert(at, below);
                deque.insert(at, below);
            }
            3 => assert_eq!(few.remove(at), deque.remove(at)),
            4 if at < len => {
                let other = (step >> 32) as usize % len;
                few.swap(at, other);
                deque.swap(at, other);
                few.swap(other, at);
                deque.swap(other, at);
            }
            5 => {
                let start = (step >> 32) as usize % (at + 1);
                few.cut(start..at);
                deque.drain(start..at);
            }
            _ => {
                if let (Some(ours), Some(theirs)) = (few.get_mut(len.wrapping_sub(1)), deque.back_mut()) {
                    (*ours, *theirs) = (*ours + step % 5, *theirs + step % 5);
                }
            }
        }
    }

    #[test]
    fn it_is_a_deque() {
        for seed in 0..200u64 {
            let (mut few, mut deque) = (Few::default(), VecDeque::new());
            let mut state = seed;
            for _ in 0..200 {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                apply(state >> 8, &mut few, &mut deque);
                assert_eq!(few.len(), deque.len(), "seed {seed}");
                assert_eq!((few.front(), few.back()), (deque.front(), deque.back()), "seed {seed}");
                assert!(few.range(0..few.len()).eq(&deque) && few.range(0..few.len()).rev().eq(deque.iter().rev()));
                assert_eq!(few.get(deque.len()), None);
                let middle = (state >> 40) % 9;
                assert_eq!(few.partition_point(|at| *at < middle), deque.partition_point(|at| *at < middle));
            }
        }
    }
}
