//! Reads many extents at once: the extents of a batch become windows, and as many windows as the disk answers together are
//! in flight on a ring (io_uring). Where there is no ring, the caller reads one extent after the other, and other threads read
//! beside it.
//!
//! A ring reads past the page cache where the file system allows it: values have a cache of their own, and a window is
//! needed once.

mod windows;
#[cfg(target_os = "linux")]
mod buffers;
#[cfg(target_os = "linux")]
mod alone;
#[cfg_attr(not(target_os = "linux"), path = "no_ring.rs")]
mod ring;
mod rings;
mod job;
mod counts;

pub(super) use counts::Counts;
pub(super) use job::FIRST;
pub(super) use rings::Rings;
pub(super) use windows::windows;
