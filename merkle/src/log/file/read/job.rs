//! A batch of reads: files, the windows of them that are read, and who takes their bytes.

use std::{fs::File, sync::atomic::AtomicBool};

use super::counts::Counts;
use crate::{
    log::{backend::Target, disk::Disk},
    types::Error,
};

/// Maximum bytes of a window.
pub(super) const WINDOW: usize = 32 << 10;

/// Bytes that are read of an extent whose length is not known, and at most of any: usual extents are shorter.
pub(in crate::log::file) const FIRST: u64 = 8 << 10;

/// Smallest unit of direct reads, in bytes. A read that ends within one is at the end of the file.
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
    /// keep the two alike.
    pub(super) fn file<'t>(&self, target: &'t Target) -> &'t File {
        let end = self.begin + self.len as u64;
        let direct = target.direct.as_ref().filter(|(_, durable)| end <= *durable);
        direct.map_or(&target.cached, |(file, _)| file)
    }
}
