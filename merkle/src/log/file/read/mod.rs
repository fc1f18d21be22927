//! Reads many extents at once: the extents of a batch become windows, and as many windows as the disk answers together are
//! in flight on a ring (io_uring). Where the system has no ring, the caller reads one extent after the other, and other
//! threads read beside it.
//!
//! A ring reads past the page cache where the file system allows it: values have a cache of their own, and a window is
//! needed once.

mod windows;
#[cfg(target_os = "linux")]
mod buffers;
#[cfg_attr(not(target_os = "linux"), path = "no_ring.rs")]
mod ring;
mod job;
mod counts;

use std::{
    fs::File,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    log::disk::Disk,
    types::{Error, Reading},
};
use ring::Ring;

pub(super) use counts::Counts;
pub(super) use job::{FIRST, Job, Take, Target};
pub(super) use windows::windows;

/// Rings that no thread uses now. A thread takes one for a batch, so that no thread waits for another's reads.
#[derive(Debug)]
pub(super) struct Rings {
    /// True if reads bypass the page cache.
    past_cache: bool,
    idle: Mutex<Vec<Ring>>,
    /// True once the system has refused a ring.
    refused: AtomicBool,
}

impl Rings {
    pub(super) const fn new(reading: Reading) -> Self {
        let (past_cache, refused) = match reading {
            Reading::Direct => (true, false),
            Reading::Buffered => (false, false),
            Reading::Threads => (false, true),
        };
        Self { past_cache, idle: Mutex::new(Vec::new()), refused: AtomicBool::new(refused) }
    }

    /// Returns true if files are to be opened past the page cache, where that is allowed.
    pub(super) fn bypass_page_cache(&self) -> bool {
        self.past_cache && self.are_there()
    }

    /// Returns true if batches are read on rings, as far as known.
    pub(super) fn are_there(&self) -> bool {
        !self.refused.load(Ordering::Relaxed)
    }

    /// Reads all windows of a job, in any order. Returns false, and has read nothing, if the system has no rings.
    ///
    /// # Errors
    /// [`Error::Io`], or the first error of `take`; no read is in flight then.
    pub(super) fn read(&self, job: &Job<'_>, take: Take<'_>) -> Result<bool, Error> {
        let Some(mut ring) = self.ring(job.disk) else { return Ok(false) };
        let read = ring.read(job, take);
        if ring.is_idle() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(ring);
        }
        read.map(|()| true)
    }

    fn ring(&self, disk: &Disk) -> Option<Ring> {
        if !self.are_there() {
            return None;
        }
        if let Some(ring) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Some(ring);
        }
        let ring = if disk.refuses_rings() { None } else { Ring::new().ok() };
        if ring.is_none() {
            self.refused.store(true, Ordering::Relaxed);
        }
        ring
    }
}

/// Opens a file past the page cache; `None` where the file system, or the system, does not allow it.
#[cfg(target_os = "linux")]
pub(super) fn direct(path: &Path) -> Option<Arc<File>> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).ok().map(Arc::new)
}

/// As on Linux.
#[cfg(not(target_os = "linux"))]
pub(super) fn direct(_: &Path) -> Option<Arc<File>> {
    None
}
