//! A batch of reads: files, the windows of them that are read, and who takes their bytes.

use std::{fs::File, path::PathBuf, sync::Arc};

use super::counts::Counts;
use crate::{log::disk::Disk, types::Error};

/// Maximum bytes of a window.
pub(super) const WINDOW: usize = 32 << 10;

/// Bytes that are read of an extent whose length is not known, and at most of any: usual extents are shorter.
pub(in crate::log::file) const FIRST: u64 = 8 << 10;

/// File of a batch.
#[derive(Clone, Debug)]
pub(in crate::log::file) struct Target {
    pub(in crate::log::file) number: u32,
    /// File, opened past the page cache if possible.
    pub(in crate::log::file) file: Arc<File>,
    /// The same file through the page cache.
    pub(in crate::log::file) cached: Arc<File>,
    pub(in crate::log::file) path: PathBuf,
}

/// Windows of a batch, and how they are read.
#[derive(Clone, Copy, Debug)]
pub(in crate::log::file) struct Job<'j> {
    pub(in crate::log::file) windows: &'j [Window],
    /// Files that the windows name by index.
    pub(in crate::log::file) targets: &'j [Target],
    pub(in crate::log::file) disk: &'j Disk,
    pub(in crate::log::file) counts: &'j Counts,
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
