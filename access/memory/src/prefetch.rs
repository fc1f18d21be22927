//! Prefetch instructions for values and slices. On processors other than x86-64 they do nothing.

/// Prefetches the cache line that `place` begins in. A hint to the processor: it changes nothing but time.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    prefetch_at(core::ptr::from_ref(place).cast());
}

/// Prefetches every cache line of `place`.
#[inline(always)]
pub fn prefetch_all<T>(place: &T) {
    lines(place).for_each(prefetch_at);
}

/// Prefetches every cache line of `places`.
#[inline(always)]
pub fn prefetch_slice<T>(places: &[T]) {
    lines_of(places.as_ptr().cast(), size_of_val(places)).for_each(prefetch_at);
}

/// Prefetches the cache line that `place` begins in for writing: copies in other cores are invalidated.
///
/// A store to a line that has not arrived holds up all later stores, and loads of what they have just written.
#[inline(always)]
pub fn prefetch_write<T>(place: &T) {
    prefetch_write_at(core::ptr::from_ref(place).cast());
}

/// Prefetches every cache line of `place` for writing, as [`prefetch_write`] does.
#[inline(always)]
pub fn prefetch_write_all<T>(place: &T) {
    lines(place).for_each(prefetch_write_at);
}

/// Length of a cache line, in bytes.
const LINE: usize = 64;

/// An address in every cache line of `place`.
#[inline(always)]
fn lines<T>(place: &T) -> impl Iterator<Item = *const u8> {
    lines_of(core::ptr::from_ref(place).cast(), size_of::<T>())
}

/// An address in every cache line of the `len` bytes from `first` on.
#[inline(always)]
fn lines_of(first: *const u8, len: usize) -> impl Iterator<Item = *const u8> {
    let offsets = (0..len).step_by(LINE).chain(len.checked_sub(1));
    offsets.map(move |offset| first.wrapping_add(offset))
}

#[inline(always)]
fn prefetch_at(place: *const u8) {
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

#[inline(always)]
fn prefetch_write_at(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the instruction has an intrinsic only where the compiler is told that it exists")]
    // SAFETY: nothing is read or written and nothing can fault. Processors with 64 bits know the instruction or skip it.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) place, options(readonly, nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cache_line_is_prefetched() {
        #[repr(align(64))]
        struct Aligned([u8; 512]);
        let memory = Aligned([0; 512]);
        let of = |place: *const u8| (place as usize - memory.0.as_ptr() as usize) / LINE;
        fn all<const LEN: usize>(memory: &[u8; 512], of: impl Fn(*const u8) -> usize) {
            for from in 0..LINE {
                let place: &[u8; LEN] = memory[from..][..LEN].try_into().expect("so many bytes");
                let mut found: Vec<usize> = lines(place).map(&of).collect();
                found.dedup();
                assert!(found.into_iter().eq(from / LINE..(from + LEN).div_ceil(LINE)), "{LEN} bytes from {from}");
            }
        }
        all::<1>(&memory.0, of);
        all::<63>(&memory.0, of);
        all::<64>(&memory.0, of);
        all::<65>(&memory.0, of);
        all::<288>(&memory.0, of);
        assert_eq!(lines(&()).count(), 0);
        prefetch_all(&memory);
        prefetch_slice(&memory.0);
        prefetch_slice::<u8>(&[]);
        prefetch_write_all(&memory);
    }
}
