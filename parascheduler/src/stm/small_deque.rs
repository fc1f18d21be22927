//! A deque that is small while it is short.

use core::{mem, ops::Range};
use std::collections::VecDeque;

/// A deque that allocates only for two items and more: most hold at most one. One that was longer keeps its memory.
#[derive(Debug, Default)]
pub(crate) enum SmallDeque<T> {
    #[default]
    None,
    One(T),
    #[expect(clippy::box_collection, reason = "there are many more of these than there are deques")]
    Many(Box<VecDeque<T>>),
}

impl<T> SmallDeque<T> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::Many(all) => all.len(),
        }
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        match self {
            Self::One(one) if at == 0 => Some(one),
            Self::Many(all) => all.get(at),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        match self {
            Self::One(one) if at == 0 => Some(one),
            Self::Many(all) => all.get_mut(at),
            _ => None,
        }
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.get(0)
    }

    pub(crate) fn back(&self) -> Option<&T> {
        self.get(self.len().wrapping_sub(1))
    }

    /// Items of `range`, as far as there are any.
    pub(crate) fn range(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = &T> {
        range.filter_map(|at| self.get(at))
    }

    /// Index of the first item for which `before` is false; it is false for all items behind it, too.
    pub(crate) fn partition_point(&self, mut before: impl FnMut(&T) -> bool) -> usize {
        match self {
            Self::None => 0,
            Self::One(one) => before(one).into(),
            Self::Many(all) => all.partition_point(before),
        }
    }

    /// Inserts `value` at an index that is at most the length.
    pub(crate) fn insert(&mut self, at: usize, value: T) {
        match mem::take(self) {
            Self::None => *self = Self::One(value),
            Self::One(one) => {
                let mut all = VecDeque::from([one]);
                all.insert(at, value);
                *self = Self::Many(Box::new(all));
            }
            Self::Many(mut all) => {
                all.insert(at, value);
                *self = Self::Many(all);
            }
        }
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<T> {
        match self {
            Self::One(_) if at == 0 => match mem::take(self) {
                Self::One(one) => Some(one),
                _ => None,
            },
            Self::Many(all) => all.remove(at),
            _ => None,
        }
    }

    /// Swaps two items that are there.
    pub(crate) fn swap(&mut self, one: usize, other: usize) {
        if let Self::Many(all) = self {
            all.swap(one, other);
        }
    }

    /// Removes the items of `range`, which ends at most at the length.
    pub(crate) fn cut(&mut self, range: Range<usize>) {
        match self {
            Self::One(_) if range.contains(&0) => *self = Self::None,
            Self::Many(all) => drop(all.drain(range)),
            _ => {}
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Makes the same change, drawn from `step`, to both.
    fn apply(step: u64, few: &mut SmallDeque<u64>, deque: &mut VecDeque<u64>) {
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
    fn it_behaves_like_a_deque() {
        for seed in 0..200u64 {
            let (mut few, mut deque) = (SmallDeque::default(), VecDeque::new());
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
