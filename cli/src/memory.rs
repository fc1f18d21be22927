//! What the allocator does with memory that is free.

/// `mi_option_purge_delay`, which the bindings do not name: milliseconds until free pages go back to the system.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Keeps freed pages for the next block. Each block frees and asks for tens of megabytes; a page that the system has taken
/// back in between is faulted in and zeroed again, which costs a third of all time on native transfers.
pub(crate) fn keep() {
    #[expect(unsafe_code, reason = "mimalloc is set by calls into C")]
    // SAFETY: sets an integer under the allocator's own lock-free rules; any value is allowed, -1 means never.
    unsafe {
        libmimalloc_sys::mi_option_set(PURGE_DELAY, -1);
    }
}
