//! A sequence over a moving range of indices.

use std::collections::VecDeque;

/// Sequence that begins at any index, and grows and shrinks at both ends.
#[derive(Clone, Debug)]
pub(crate) struct Span<T> {
    first: u64,
    items: VecDeque<T>,
}

impl<T: Copy> Span<T> {
    pub(crate) const fn new() -> Self {
        Self { first: 0, items: VecDeque::new() }
    }

    #[inline]
    pub(crate) fn get(&self, index: u64) -> Option<&T> {
        self.items.get(usize::try_from(index.checked_sub(self.first)?).ok()?)
    }

    /// Sets the item at `index`, fills the gap with `fill`, and returns the previous item.
    pub(crate) fn set(&mut self, index: u64, item: T, fill: T) -> Option<T> {
        if self.items.is_empty() {
            self.first = index;
        }
        while index < self.first {
            self.items.push_front(fill);
            self.first -= 1;
        }
        let at = (index - self.first) as usize;
        if at >= self.items.len() {
            self.items.resize(at, fill);
            self.items.push_back(item);
            return None;
        }
        Some(std::mem::replace(&mut self.items[at], item))
    }

    pub(crate) fn memory(&self) -> usize {
        self.items.capacity() * size_of::<T>()
    }

    /// Items from the first on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }

    /// Drops the items below `first`, handing each to `gone`, and those from `end` on.
    pub(crate) fn trim(&mut self, first: u64, end: u64, mut gone: impl FnMut(u64, T)) {
        self.items.truncate(usize::try_from(end.saturating_sub(self.first)).unwrap_or(usize::MAX));
        while self.first < first
            && let Some(item) = self.items.pop_front()
        {
            gone(self.first, item);
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_shrinks_at_both_ends() {
        let mut span = Span::new();
        assert_eq!(span.set(5, 'e', '-'), None);
        assert_eq!(span.set(8, 'h', '-'), None);
        assert_eq!(span.set(3, 'c', '-'), Some('-'), "what fills is there");
        assert_eq!(span.set(5, 'E', '-'), Some('e'));
        let all = |span: &Span<char>| (0..12).map(|i| span.get(i).copied().unwrap_or('.')).collect::<String>();
        assert_eq!(all(&span), "...c-E--h...");
        let mut gone = String::new();
        span.trim(5, 8, |index, item| gone.push_str(&format!("{index}{item}")));
        assert_eq!((all(&span).as_str(), gone.as_str()), (".....E--....", "3c4-"));
        span.trim(20, 30, |_, _| ());
        assert_eq!(span.get(20), None);
        assert_eq!(span.set(2, 'b', '-'), None);
        assert_eq!(all(&span), "..b.........");
    }
}
