//! Large memory that goes back to where it came from. What a block is made of are megabytes, and an allocator that gives them
//! back to the system has them cleared for every block anew.

use core::ops::{Deref, DerefMut};
use parking_lot::Mutex;
use phalanx_access::AccessSets;
use phalanx_paralyze::Preimages;
use phalanx_parascheduler::Dag;
use std::sync::Arc;

/// Pieces of memory that one home keeps.
const KEPT: usize = 4;

/// What can be emptied without losing its memory.
pub(crate) trait Reuse: Default {
    fn clear(&mut self);
}

impl<T> Reuse for Vec<T> {
    fn clear(&mut self) {
        self.clear();
    }
}

impl<K> Reuse for AccessSets<K> {
    fn clear(&mut self) {
        self.clear();
    }
}

impl Reuse for Dag {
    fn clear(&mut self) {
        self.clear();
    }
}

impl<K> Reuse for Preimages<K> {
    fn clear(&mut self) {
        self.clear();
    }
}

/// Where memory waits.
#[derive(Debug)]
pub(crate) struct Home<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Home<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Reuse> Home<T> {
    /// Something empty.
    pub(crate) fn lend(&self) -> Lent<T> {
        let value = self.0.lock().pop().unwrap_or_default();
        Lent { value, home: Some(Self(Arc::clone(&self.0))) }
    }
}

/// A value whose memory goes home in the end; a copy's does not.
#[derive(Debug, Default)]
pub(crate) struct Lent<T: Reuse> {
    value: T,
    home: Option<Home<T>>,
}

impl<T: Reuse> From<T> for Lent<T> {
    fn from(value: T) -> Self {
        Self { value, home: None }
    }
}

impl<T: Reuse + Clone> Clone for Lent<T> {
    fn clone(&self) -> Self {
        self.value.clone().into()
    }
}

impl<T: Reuse> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Reuse> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Reuse> Drop for Lent<T> {
    fn drop(&mut self) {
        if let Some(Home(home)) = self.home.take() {
            let mut value = core::mem::take(&mut self.value);
            value.clear();
            let mut kept = home.lock();
            if kept.len() < KEPT {
                kept.push(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_empty_and_copies_keep_theirs() {
        let home = Home::<Vec<u64>>::default();
        let mut lent = home.lend();
        lent.extend(0..1000);
        let (at, copy) = (lent.as_ptr(), lent.clone());
        drop(lent);
        drop(copy);
        let again = home.lend();
        assert!(again.is_empty() && again.capacity() >= 1000 && again.as_ptr() == at);
        assert_eq!(home.lend().capacity(), 0, "there was one");
        (0..2 * KEPT).map(|_| home.lend()).collect::<Vec<_>>().clear();
        assert_eq!(home.0.lock().len(), KEPT);
    }
}
