//! The rings of a log: a few, lent to one batch each.

use std::{
    fs::File,
    io,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use super::{
    counts::Counts,
    job::{Job, PAGE, SECTOR, Take, Window},
    ring::Ring,
};
use crate::{
    log::{backend::Target, disk::Disk},
    types::{Error, Reading},
};

/// Maximum number of rings: a batch takes sixteen, and as many again would be no faster. What is beyond them is read by threads.
const MOST: usize = 24;

/// Rings of a log. A thread borrows one for a batch, so that no thread waits for another's reads.
#[derive(Debug)]
pub(in crate::log::file) struct Rings {
    /// True while reads bypass the page cache.
    past_cache: AtomicBool,
    /// Unit of reads in bytes, a power of two: the largest that a file opened past the page cache has asked for, or a page after a
    /// refusal.
    unit: AtomicU64,
    pool: Mutex<Pool>,
    /// True if the system has no rings for this process.
    refused: AtomicBool,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<Ring>,
    /// Number of rings, idle or lent.
    made: usize,
}

/// Ring of one batch, which goes back to its pool even after a panic.
struct Lent<'r> {
    rings: &'r Rings,
    ring: Option<Ring>,
}

impl Rings {
    pub(in crate::log::file) fn new(reading: Reading) -> Self {
        let (past_cache, refused) = match reading {
            Reading::Direct => (true, false),
            Reading::Buffered => (false, false),
            Reading::Threads => (false, true),
        };
        Self {
            past_cache: AtomicBool::new(past_cache),
            // Through the page cache the kernel reads whole pages.
            unit: AtomicU64::new(if past_cache { SECTOR } else { PAGE }),
            pool: Mutex::default(),
            refused: AtomicBool::new(refused),
        }
    }

    /// Unit of the reads of files that are open, in bytes: windows begin and end at multiples of it.
    pub(in crate::log::file) fn unit(&self) -> u64 {
        self.unit.load(Ordering::Relaxed)
    }

    /// Returns true if files are to be opened past the page cache.
    pub(in crate::log::file) fn bypass_page_cache(&self) -> bool {
        self.past_cache.load(Ordering::Relaxed) && self.are_there()
    }

    /// Opens a file past the page cache, if files are to be read so and this one can be now.
    pub(in crate::log::file) fn open_direct(&self, file: &File, path: &Path) -> Option<Arc<File>> {
        if !self.bypass_page_cache() {
            return None;
        }
        let opened = direct(file, path);
        if let Ok(file) = &opened {
            self.unit.fetch_max(unit_of(file), Ordering::Relaxed);
        }
        if opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput) {
            self.past_cache.store(false, Ordering::Relaxed);
            self.unit.store(PAGE, Ordering::Relaxed);
        }
        opened.ok()
    }

    /// Returns true if batches are read on rings, as far as known.
    pub(in crate::log::file) fn are_there(&self) -> bool {
        !self.refused.load(Ordering::Relaxed)
    }

    /// Reads all windows, in any order. Returns false, and has read nothing, if there is no ring for it now.
    ///
    /// # Errors
    /// [`Error::Io`], or the first error of `take`; no read is in flight then.
    pub(in crate::log::file) fn read(
        &self,
        windows: &[Window],
        targets: &[Target],
        (disk, counts): (&Disk, &Counts),
        take: Take<'_>,
    ) -> Result<bool, Error> {
        let Some(mut lent) = self.lend(disk) else { return Ok(false) };
        let Some(ring) = &mut lent.ring else { return Ok(false) };
        let job = Job { windows, targets, disk, counts, past_cache: &self.past_cache, unit: &self.unit };
        ring.read(&job, take).map(|()| true)
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lend(&self, disk: &Disk) -> Option<Lent<'_>> {
        if !self.are_there() {
            return None;
        }
        let mut pool = self.pool();
        if let Some(ring) = pool.idle.pop() {
            return Some(Lent { rings: self, ring: Some(ring) });
        }
        if pool.made == MOST {
            return None;
        }
        pool.made += 1;
        drop(pool);
        let mut lent = Lent { rings: self, ring: None };
        match disk.makes_ring().and_then(|()| Ring::new()) {
            Ok(ring) => lent.ring = Some(ring),
            Err(error) => self.refused(&error),
        }
        lent.ring.is_some().then_some(lent)
    }

    /// Notes an error of the kernel. Files and memory may be there for the next batch; what a kernel does not know or does not
    /// allow, it will not know or allow later.
    fn refused(&self, error: &io::Error) {
        let kinds = [io::ErrorKind::Unsupported, io::ErrorKind::PermissionDenied, io::ErrorKind::InvalidInput];
        if kinds.contains(&error.kind()) {
            self.refused.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let ready = self.ring.take().and_then(|ring| {
            ring.refused().into_iter().for_each(|error| self.rings.refused(error));
            ring.is_ready().then_some(ring)
        });
        let mut pool = self.rings.pool();
        match ready {
            Some(ring) => pool.idle.push(ring),
            None => pool.made -= 1,
        }
    }
}

/// Unit in which a file can be read past the page cache, in bytes: a sector of the disk if the file system tells, else a page.
#[cfg(target_os = "linux")]
fn unit_of(file: &File) -> u64 {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let told = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    let told = told.filter(|told| told.stx_mask & StatxFlags::DIOALIGN.bits() != 0);
    let told =
        told.filter(|told| u64::from(told.stx_dio_mem_align) <= PAGE).map(|told| u64::from(told.stx_dio_offset_align));
    told.filter(|unit| (SECTOR..=PAGE).contains(unit) && unit.is_power_of_two()).unwrap_or(PAGE)
}

/// As on Linux.
#[cfg(not(target_os = "linux"))]
fn unit_of(_: &File) -> u64 {
    PAGE
}

/// Opens the file again, past the page cache. The file may have another name by now, or none, and another file its name.
///
/// # Errors
/// The file system does not allow it ([`io::ErrorKind::InvalidInput`]), or it cannot be opened now.
#[cfg(target_os = "linux")]
pub(super) fn direct(file: &File, path: &Path) -> io::Result<Arc<File>> {
    use std::os::{
        fd::AsRawFd as _,
        unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    };
    let identity = |file: &File| file.metadata().map(|meta| (meta.dev(), meta.ino()));
    let wanted = identity(file)?;
    let open = |path: &Path| -> io::Result<Arc<File>> {
        let opened = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path)?;
        if identity(&opened)? == wanted { Ok(Arc::new(opened)) } else { Err(io::ErrorKind::NotFound.into()) }
    };
    open(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd()))).or_else(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Err(error),
        _ => open(path),
    })
}

/// As on Linux.
#[cfg(not(target_os = "linux"))]
pub(super) fn direct(_: &File, _: &Path) -> io::Result<Arc<File>> {
    Err(io::ErrorKind::InvalidInput.into())
}
