/// Asks the CPU to bring what `place` points to into its caches. Only ever a hint.
#[inline(always)]
pub(crate) fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the intrinsic takes a raw pointer")]
    // SAFETY: a prefetch reads nothing and cannot fault; the pointer comes from a reference besides.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(core::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// The same for a place that is about to be written, which no other core is to have then.
#[inline(always)]
pub(crate) fn prefetch_write<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the instruction has an intrinsic only where the compiler is told that it exists")]
    // SAFETY: nothing is read or written and nothing can fault. Processors with 64 bits know the instruction or skip it.
    unsafe {
        core::arch::asm!(
            "prefetchw [{place}]",
            place = in(reg) core::ptr::from_ref(place),
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
