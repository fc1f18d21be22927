//! A ring of the kernel (io_uring) with buffers of its own: keeps many reads in flight from one thread.

use std::{
    fmt, io,
    mem::ManuallyDrop,
    os::{fd::AsRawFd as _, unix::fs::FileExt as _},
};

use io_uring::{IoUring, Probe, opcode, types::Fd};

use super::{
    buffers::Buffers,
    job::{Job, Take, WINDOW},
};
use crate::{log::disk::at, types::Error};

/// Reads in flight: disks answer this many together. Several threads have rings at the same time.
const DEPTH: usize = 64;

/// Completions that one call waits for, so that a call is shared while the queue stays full enough.
const WAIT: usize = DEPTH / 8;

/// Times that a read which the kernel gave up is repeated.
const TRIES: u32 = 100;

/// Unit of direct reads, in bytes. A read that ends within one is at the end of the file.
const SECTOR: usize = 512;

/// Ring and buffers of one thread at a time.
pub(super) struct Ring {
    ring: IoUring,
    /// Freed only while no read is in flight.
    buffers: ManuallyDrop<Buffers>,
    reads: Vec<Read>,
    /// Reads that the kernel may write to the buffers of.
    in_flight: usize,
}

/// Read of a window into the buffer with the same index.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    window: usize,
    /// Bytes that are there.
    filled: usize,
    tries: u32,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

impl Ring {
    /// Sets up a ring.
    ///
    /// # Errors
    /// The kernel has none, or refuses it to this process.
    pub(super) fn new() -> io::Result<Self> {
        // Completions need no interrupt of the thread: it asks for them. Older kernels do not know the flag.
        let ring = IoUring::builder().setup_coop_taskrun().build(DEPTH as u32);
        let ring = ring.or_else(|_| IoUring::new(DEPTH as u32))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let buffers = ManuallyDrop::new(Buffers::new(DEPTH, WINDOW));
        Ok(Self { ring, buffers, reads: vec![Read::default(); DEPTH], in_flight: 0 })
    }

    /// Returns true if no read is in flight.
    pub(super) const fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Reads all windows, in any order. After an error begun reads are awaited, and no others begin.
    ///
    /// # Errors
    /// [`Error::Io`], or the first error of `take`.
    pub(super) fn read(&mut self, job: &Job<'_>, take: Take<'_>) -> Result<(), Error> {
        debug_assert!(self.is_idle(), "a ring is handed on when it is idle");
        let mut free: Vec<usize> = (0..DEPTH).collect();
        // Reads to begin again, after a short one or a full queue.
        let mut again = Vec::new();
        let (mut next, mut failed) = (0, None);
        loop {
            let mut began = 0;
            while failed.is_none() {
                let slot = match again.pop() {
                    Some(slot) => slot,
                    None if next == job.windows.len() => break,
                    None => match free.pop() {
                        Some(slot) => {
                            self.reads[slot] = Read { window: next, ..Read::default() };
                            next += 1;
                            slot
                        }
                        None => break,
                    },
                };
                if job.disk.is_queue_full() || !self.push(slot, job) {
                    again.push(slot);
                    break;
                }
                began += 1;
            }
            job.counts.began(began);
            if self.is_idle() {
                let Some(slot) = again.pop().filter(|_| failed.is_none()) else { break };
                // The queue takes nothing and owes nothing: the thread reads by itself.
                failed = self.read_alone(slot, job, take).err();
                free.push(slot);
                continue;
            }
            let wait = if failed.is_some() { self.in_flight } else { self.in_flight.min(WAIT) };
            match self.ring.submit_and_wait(wait) {
                Ok(_) => {}
                // A signal, or memory or completions ran short: what has ended makes room.
                Err(error) if is_transient(&error) => {}
                Err(error) => {
                    job.counts.ended(self.in_flight, 0);
                    let path = job.targets.first().map_or_else(Default::default, |target| target.path.clone());
                    return Err(Error::Io { path, source: error });
                }
            }
            let (mut ended, mut bytes) = (0, 0);
            while let Some((slot, result)) = self.completed() {
                ended += 1;
                let window = job.windows[self.reads[slot].window];
                let path = &job.targets[window.target].path;
                let read = &mut self.reads[slot];
                let is_whole = match job.disk.completed(path, result) {
                    Err(error) if is_transient(&error) && read.tries < TRIES => {
                        read.tries += 1;
                        false
                    }
                    // The file system opens files past the page cache and does not read them: the caller misses the
                    // bytes, and reads through it.
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => true,
                    Err(error) => {
                        failed.get_or_insert(at(path)(error));
                        free.push(slot);
                        continue;
                    }
                    Ok(more) => {
                        bytes += more;
                        read.filled += more;
                        // At its end a file has no more.
                        more == 0 || read.filled >= window.len || !read.filled.is_multiple_of(SECTOR)
                    }
                };
                if !is_whole {
                    again.push(slot);
                    continue;
                }
                let (window, filled) = (read.window, read.filled);
                if failed.is_none() {
                    #[expect(unsafe_code, reason = "memory that the kernel has written to")]
                    // SAFETY: the read of this buffer has ended, and none begins before `taken` is there.
                    let taken = take(window, unsafe { self.buffers.bytes(slot, filled) });
                    failed = taken.err();
                }
                free.push(slot);
            }
            job.counts.ended(ended, bytes);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Puts a read into the queue; false if it is full.
    fn push(&mut self, slot: usize, job: &Job<'_>) -> bool {
        let Read { window, filled, .. } = self.reads[slot];
        let window = &job.windows[window];
        let len = window.len - filled;
        let part = self.buffers.part(slot, filled, len);
        let fd = Fd(job.targets[window.target].file.as_raw_fd());
        let read = opcode::Read::new(fd, part, len as u32).offset(window.begin + filled as u64).build();
        #[expect(unsafe_code, reason = "the kernel writes to a buffer")]
        // SAFETY: the buffer is alive as long as a read of it is in flight (`drop`), and until it has ended no other read
        // uses this buffer. The file is open until the batch ends, and reads in flight hold it by themselves.
        let pushed = unsafe { self.ring.submission().push(&read.user_data(slot as u64)) };
        self.in_flight += usize::from(pushed.is_ok());
        pushed.is_ok()
    }

    /// Next read that has ended: its slot, and the bytes that it brought.
    fn completed(&mut self) -> Option<(usize, io::Result<usize>)> {
        let entry = self.ring.completion().next()?;
        self.in_flight -= 1;
        let result = usize::try_from(entry.result()).map_err(|_| io::Error::from_raw_os_error(-entry.result()));
        Some((entry.user_data() as usize, result))
    }

    /// Reads a window without the queue.
    fn read_alone(&self, slot: usize, job: &Job<'_>, take: Take<'_>) -> Result<(), Error> {
        let window = &job.windows[self.reads[slot].window];
        let target = &job.targets[window.target];
        job.counts.began(1);
        // A direct read needs aligned memory: its own buffers'.
        let alone = Buffers::new(1, WINDOW);
        let mut filled = 0;
        while filled < window.len {
            #[expect(unsafe_code, reason = "aligned memory")]
            // SAFETY: `part` has checked the range; the buffer is this call's own.
            let rest = unsafe {
                core::slice::from_raw_parts_mut(alone.part(0, filled, window.len - filled), window.len - filled)
            };
            match target.file.read_at(rest, window.begin + filled as u64) {
                Ok(more) => {
                    filled += more;
                    if more == 0 || !filled.is_multiple_of(SECTOR) {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    job.counts.ended(1, filled);
                    return Err(at(&target.path)(error));
                }
            }
        }
        job.counts.ended(1, filled);
        #[expect(unsafe_code, reason = "aligned memory")]
        // SAFETY: the kernel has no pointer to this buffer.
        let bytes = unsafe { alone.bytes(0, filled) };
        take(self.reads[slot].window, bytes)
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

impl Drop for Ring {
    fn drop(&mut self) {
        // After a panic or an error reads may be in flight.
        let mut tries = 0;
        while self.in_flight > 0 && tries < TRIES {
            tries += u32::from(self.ring.submit_and_wait(self.in_flight).is_err());
            while self.completed().is_some() {}
        }
        if self.in_flight == 0 {
            #[expect(unsafe_code, reason = "memory that the kernel wrote to")]
            // SAFETY: no read is in flight, and this is the only drop. Otherwise the memory stays allocated for ever.
            unsafe {
                ManuallyDrop::drop(&mut self.buffers);
            }
        }
    }
}
