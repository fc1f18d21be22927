//! What the allocator does with memory that is free, and memory that is asked for before it is needed.

use super::host;
use crate::error::Usage;
use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

const GIB: u64 = 1 << 30;

/// Memory is touched in pieces of so many bytes: the allocator has a slice of 64 KiB for itself beside each, and places them
/// within 32 MiB, which 32 of them fill. Between pieces of 4 MiB it left a ninth of the huge pages that it takes from the system, which
/// were zeroed while blocks ran, for 3 ms each where the host had not backed them yet.
const PIECE: usize = (1 << 20) - (64 << 10);

/// Bytes that are written to see how fast that is.
const TRIED: usize = 128 << 20;

/// `mi_option_purge_delay`, which the bindings do not name: milliseconds until free pages go back to the system.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Keeps freed pages for the next block. Each block frees and asks for tens of megabytes; a page that the system has taken
/// back in between is faulted in and zeroed again, which costs a third of all time on native transfers.
pub fn keep() {
    #[expect(unsafe_code, reason = "mimalloc is set by calls into C")]
    // SAFETY: sets an integer under the allocator's own lock-free rules; any value is allowed, -1 means never.
    unsafe {
        libmimalloc_sys::mi_option_set(PURGE_DELAY, -1);
    }
}

/// GiB that [`touch`] has written to, all of which the process still has.
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

/// Writes to so much memory, with what it has written to before, and frees it, which [`keep`] leaves with the allocator.
///
/// # Errors
/// As [`check`].
pub(crate) fn touch(gib: u64) -> Result<(), Usage> {
    check(gib)?;
    let missing = gib.saturating_sub(TOUCHED.load(Ordering::Relaxed));
    let pieces: Vec<Vec<u8>> = (0..(missing * GIB).div_ceil(PIECE as u64)).map(|_| vec![1; PIECE]).collect();
    black_box(pieces);
    TOUCHED.fetch_max(gib, Ordering::Relaxed);
    Ok(())
}

/// Bytes that were touched. They are no longer available to others, and to this process before all others.
pub(crate) fn touched() -> u64 {
    TOUCHED.load(Ordering::Relaxed) * GIB
}

/// What is left of the available memory beside `needed` bytes.
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

/// Bytes per second at which memory is written that this process has not had before, and then once more.
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
