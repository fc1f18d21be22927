//! A batch of reads: files, the windows of them that are read, and who takes their bytes.

use std::{
    fs::File,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::counts::Counts;
use crate::{
    log::{backend::Target, disk::Disk},
    types::Error,
};

/// Maximum bytes of a window.
pub(super) const WINDOW: usize = 32 << 10;

/// Bytes that are read of an extent whose length is not known, and at most of any: usual extents are shorter.
pub(in crate::log::file) const FIRST: u64 = 8 << 10;

/// Smallest unit of direct reads, in bytes.
pub(in crate::log::file) const SECTOR: u64 = 512;

/// Largest unit of direct reads, and the unit of all others, in bytes.
pub(in crate::log::file) const PAGE: u64 = 4096;

/// Windows of a batch, and how they are read.
#[derive(Clone, Copy, Debug)]
pub(in crate::log::file) struct Job<'j> {
    pub(in crate::log::file) windows: &'j [Window],
    /// Files that the windows name by index.
    pub(in crate::log::file) targets: &'j [Target],
    pub(in crate::log::file) disk: &'j Disk,
    pub(in crate::log::file) counts: &'j Counts,
    /// False once the file system has refused to read past the page cache.
    pub(super) past_cache: &'j AtomicBool,
    /// Unit of reads past the page cache, in bytes.
    pub(super) unit: &'j AtomicU64,
}

#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only rings read past the page cache"))]
impl Job<'_> {
    /// Notes that the kernel has refused to read these bytes past the page cache. If the disk wants a larger unit than the file system
    /// told, pages are read from now on; what refuses pages is read through the page cache.
    pub(super) fn was_refused(&self, begin: u64, len: usize) {
        self.unit.store(PAGE, Ordering::Relaxed);
        if begin.is_multiple_of(PAGE) && (len as u64).is_multiple_of(PAGE) {
            self.past_cache.store(false, Ordering::Relaxed);
        }
    }
}

/// Takes the bytes of a window by its index: as many as the file has of it.
pub(in crate::log::file) type Take<'t> = &'t mut dyn FnMut(usize, &[u8]) -> Result<(), Error>;

/// Part of a file that one read brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log::file) struct Window {
    /// Index of the file among the targets.
    pub(in crate::log::file) target: usize,
    pub(in crate::log::file) begin: u64,
    pub(in crate::log::file) len: usize,
    /// Extents in it, by their range among the spots.
    pub(in crate::log::file) first: usize,
    pub(in crate::log::file) end: usize,
}

#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only rings read past the page cache"))]
impl Window {
    /// File that it is read from: past the page cache, unless that may have what the disk does not. A file system does not have to
    /// keep the two alike, and where it does, it writes a page that has changed before a direct read of any part of it.
    pub(super) fn file<'t>(&self, target: &'t Target) -> &'t File {
        let end = (self.begin + self.len as u64).next_multiple_of(PAGE);
        let direct = target.direct.as_ref().filter(|(_, durable)| end <= *durable);
        direct.map_or(&target.cached, |(file, _)| file)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_refuses_sectors_is_read_by_pages_past_the_page_cache() {
        let (disk, counts) = (Disk::default(), Counts::default());
        let (past_cache, unit) = (AtomicBool::new(true), AtomicU64::new(SECTOR));
        let job =
            Job { windows: &[], targets: &[], disk: &disk, counts: &counts, past_cache: &past_cache, unit: &unit };
        // The others of a batch that was planned with sectors are refused as well.
        for (begin, len) in [(512, 4096), (8192, 3072), (1024, 8192)] {
            job.was_refused(begin, len);
            assert!(past_cache.load(Ordering::Relaxed) && unit.load(Ordering::Relaxed) == PAGE, "{begin}, {len}");
        }
        job.was_refused(8192, 4096);
        assert!(!past_cache.load(Ordering::Relaxed), "pages are refused, too");
    }
}
