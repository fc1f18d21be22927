//! Places for items of one size, used again after they were freed.

/// Items by index. The memory of freed ones is used again.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Arena<T> {
    pub(crate) fn add(&mut self, item: T) -> u32 {
        if let Some(at) = self.free.pop() {
            self.items[at as usize] = item;
            return at;
        }
        self.items.push(item);
        u32::try_from(self.items.len() - 1).expect("memory ends before indices do")
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> &T {
        &self.items[at as usize]
    }

    /// Frees the place. What is there stays until the place is used again.
    pub(crate) fn free(&mut self, at: u32) {
        self.free.push(at);
    }

    /// Number of items.
    pub(crate) const fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// Bytes of all places.
    pub(crate) const fn memory(&self) -> usize {
        self.items.capacity() * size_of::<T>() + self.free.capacity() * 4
    }
}
