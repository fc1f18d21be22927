/// Asks the processor to bring the cache line that `place` begins in. A hint: it changes nothing but time.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    prefetch_at(place);
}

/// Like [`prefetch`], of any place.
#[inline(always)]
pub fn prefetch_at<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the intrinsic takes a raw pointer")]
    // SAFETY: nothing is read and nothing can fault.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Like [`prefetch`], for a line that is about to be written: it comes without the copies that other cores have of it. A store
/// to a line that is not there yet holds up all later ones, and loads of what they have just written with them.
#[inline(always)]
pub fn prefetch_write<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the instruction has an intrinsic only where the compiler is told that it exists")]
    // SAFETY: nothing is read and nothing can fault. Every processor with SSE4.2, which this is compiled for, knows the
    // instruction or takes it for none.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
