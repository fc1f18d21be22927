//! Memory that the kernel reads into while the process goes on: never borrowed as a whole, so that no reference covers bytes
//! that change.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    ptr::NonNull,
};

/// Buffers of equal size, aligned to pages.
#[derive(Debug)]
pub(super) struct Buffers {
    start: NonNull<u8>,
    layout: Layout,
    each: usize,
}

#[expect(unsafe_code, reason = "owned memory behind a pointer")]
// SAFETY: the memory belongs to this value alone, as a `Box<[u8]>`'s does; nothing in it belongs to a thread.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Allocates `count` buffers of `each` bytes, neither of them zero.
    pub(super) fn new(count: usize, each: usize) -> Self {
        let layout = Layout::from_size_align(count * each, 4096).expect("a few megabytes");
        assert!(layout.size() > 0, "there are buffers");
        #[expect(unsafe_code, reason = "aligned memory")]
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, layout, each }
    }

    /// Pointer to `len` bytes of a buffer from `from` on, for the kernel.
    ///
    /// # Panics
    /// If the buffer does not have these bytes.
    pub(super) fn part(&self, buffer: usize, from: usize, len: usize) -> *mut u8 {
        assert!(from + len <= self.each && (buffer + 1) * self.each <= self.layout.size(), "bytes of a buffer");
        // No access: the pointer stays within the allocation.
        self.start.as_ptr().wrapping_add(buffer * self.each + from)
    }

    /// First bytes of a buffer.
    ///
    /// # Safety
    /// The kernel does not write to this buffer meanwhile.
    #[expect(unsafe_code, reason = "memory that the kernel has written to")]
    pub(super) unsafe fn bytes(&self, buffer: usize, len: usize) -> &[u8] {
        // SAFETY: `part` checks that the bytes are within the allocation, which was zeroed; the caller says that they do not
        // change.
        unsafe { core::slice::from_raw_parts(self.part(buffer, 0, len), len) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "owned memory")]
        // SAFETY: allocated in `new` with this layout. A ring drops its buffers only when no read is in flight.
        unsafe {
            dealloc(self.start.as_ptr(), self.layout);
        }
    }
}
