//! A list that threads append to without moving its items: the entries that were read for a block or a reader.

use std::{
    sync::OnceLock,
    sync::atomic::{AtomicU32, Ordering},
};

/// Items of the first chunk; every further chunk has room for as many as all before it.
const FIRST: u32 = 64;

type Chunk<T> = OnceLock<Box<[OnceLock<T>]>>;

/// List that many threads append to, and whose items never move.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    chunks: [Chunk<T>; 25],
    /// Hands out ids; an item's own cell says whether it is there.
    next: AtomicU32,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { chunks: [const { OnceLock::new() }; 25], next: AtomicU32::new(0) }
    }
}

const fn place(id: u32) -> (usize, usize) {
    let chunk = (id / FIRST + 1).ilog2();
    (chunk as usize, (id - FIRST * ((1 << chunk) - 1)) as usize)
}

impl<T> Arena<T> {
    /// Adds an item and returns its id.
    ///
    /// # Panics
    /// Past two thousand million items, far more than a block can name.
    pub(crate) fn push(&self, item: T) -> u32 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (chunk, at) = place(id);
        let cells = || (0..FIRST << chunk).map(|_| OnceLock::new()).collect();
        let fresh = self.chunks[chunk].get_or_init(cells)[at].set(item).is_ok();
        debug_assert!(fresh, "a number is handed out once");
        id
    }

    /// Bytes that the items take, without what they own.
    pub(crate) fn memory(&self) -> usize {
        self.next.load(Ordering::Relaxed) as usize * size_of::<OnceLock<T>>()
    }

    /// Item of an id that [`Self::push`] returned.
    pub(crate) fn get(&self, id: u32) -> &T {
        let (chunk, at) = place(id);
        self.chunks[chunk].get().and_then(|cells| cells[at].get()).expect("the number of an item")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_do_not_move_while_threads_append() {
        let arena = Arena::<u64>::default();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let arena = &arena;
                scope.spawn(move || {
                    for item in 0..1000 {
                        let id = arena.push(thread << 32 | item);
                        assert_eq!(*arena.get(id), thread << 32 | item);
                    }
                });
            }
        });
        let mut all: Vec<u64> = (0..4000).map(|id| *arena.get(id)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..4).flat_map(|thread| (0..1000).map(move |item| thread << 32 | item)).collect::<Vec<_>>());
    }
}
