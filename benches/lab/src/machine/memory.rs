//! Memory: the allocator's policy for free pages, and pages that are touched before a run needs them.

use super::host;
use crate::error::Usage;
use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

const GIB: u64 = 1 << 30;

/// Bytes of a chunk of touched memory. The allocator adds a slice of 64 KiB and places chunks within 32 MiB, which 32 of
/// them fill. Chunks of 4 MiB left a ninth of the huge pages untouched, which were then zeroed while blocks ran, for 3 ms
/// each.
const CHUNK: usize = (1 << 20) - (64 << 10);

/// Bytes that are written to measure the write rate.
const TRIED: usize = 128 << 20;

/// `mi_option_purge_delay`, which the bindings do not name: milliseconds until free pages return to the system.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Keeps freed pages for the next block. Each block frees and allocates tens of megabytes; a page that returned to the
/// system in between is faulted in and zeroed again, a third of all time on native transfers.
pub fn keep() {
    purge_after(-1);
}

/// Returns freed pages to the system after ten seconds: what requests of strangers took once is not kept for ever. Everything that
/// is free when the time is up goes, also what the next block needs: at one second a node under load spent a sixth of its time on
/// pages that the system had cleared again.
pub fn give_back() {
    purge_after(10_000);
}

fn purge_after(milliseconds: core::ffi::c_long) {
    #[expect(unsafe_code, reason = "mimalloc is set by calls into C")]
    // SAFETY: sets an integer under the allocator's own lock-free rules; any value is allowed, -1 means never.
    unsafe {
        libmimalloc_sys::mi_option_set(PURGE_DELAY, milliseconds);
    }
}

/// GiB that [`touch`] has written to; the process keeps all of it.
static TOUCHED: AtomicU64 = AtomicU64::new(0);

/// Refuses to touch more memory than there is.
pub(crate) fn check(gib: u64) -> Result<(), Usage> {
    let available = host::available_memory();
    let missing = gib.saturating_sub(TOUCHED.load(Ordering::Relaxed));
    match missing.checked_mul(GIB) {
        Some(0) => Ok(()),
        _ if available == u64::MAX => {
            Err(Usage("--touch needs a system that says how much memory is available".into()))
        }
        Some(bytes) if bytes <= available => Ok(()),
        _ => Err(Usage(format!("--touch {gib} GiB is more than the {} GiB that are available", available / GIB))),
    }
}

/// Writes to `gib` GiB of memory in total and frees it; [`keep`] leaves it with the allocator.
///
/// # Errors
/// As [`check`].
pub(crate) fn touch(gib: u64) -> Result<(), Usage> {
    check(gib)?;
    let missing = gib.saturating_sub(TOUCHED.load(Ordering::Relaxed));
    let chunks: Vec<Vec<u8>> = (0..(missing * GIB).div_ceil(CHUNK as u64)).map(|_| vec![1; CHUNK]).collect();
    black_box(chunks);
    TOUCHED.fetch_max(gib, Ordering::Relaxed);
    Ok(())
}

/// Bytes that were touched: reserved for this process.
pub(crate) fn touched() -> u64 {
    TOUCHED.load(Ordering::Relaxed) * GIB
}

/// Available memory beside `needed` bytes, in bytes.
///
/// # Errors
/// If less is available: the sentence ends with what to lower.
pub(crate) fn memory_beside(needed: u64) -> Result<u64, Usage> {
    let available = host::available_memory().saturating_add(touched());
    available.checked_sub(needed).ok_or_else(|| {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        Usage(format!(
            "this load needs about {:.1} GiB for state and results, {:.1} GiB are available: lower --accounts or --txs",
            gib(needed),
            gib(available)
        ))
    })
}

/// Write rate of new memory, and of the same memory again, in bytes per second.
pub(crate) fn speed() -> (f64, f64) {
    let mut bytes = Vec::with_capacity(TRIED);
    let mut write = |value| {
        let start = Instant::now();
        bytes.clear();
        bytes.resize(TRIED, value);
        black_box(&mut bytes);
        TRIED as f64 / start.elapsed().as_secs_f64()
    };
    (write(1), write(2))
}
