//! A ring of the kernel (io_uring) with buffers of its own: keeps many reads in flight from one thread.
//!
//! A batch ends whatever the kernel answers. A read that it gives up again and again is read by the thread itself, and so is
//! all that is left once it refuses to take reads or to hand out what has ended.

use std::{
    fmt, io,
    mem::ManuallyDrop,
    os::fd::AsRawFd as _,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use io_uring::{IoUring, Probe, opcode, types::Fd};

use super::{
    alone::read_alone,
    buffers::Buffers,
    job::{Job, Take, WINDOW},
};
use crate::{log::disk::at, types::Error};

/// Reads in flight: disks answer this many together. Several threads have rings at the same time.
const DEPTH: usize = 64;

/// Completions that one call waits for, so that a call is shared while the queue stays full enough.
const WAIT: usize = DEPTH / 8;

/// Times that the kernel is asked again for a read that it gave up, or for the queue without any progress.
const TRIES: u32 = 100;

/// Pause before the kernel is asked again: all tries together take some tens of milliseconds.
const PAUSE: Duration = Duration::from_micros(200);

/// Time in which reads end that a ring has begun and that the kernel no longer reports when it is asked. After it their memory is
/// given up.
const LAST: Duration = Duration::from_secs(5);

/// Ring and buffers of one thread at a time.
pub(super) struct Ring {
    ring: IoUring,
    /// Freed only while no read is in flight.
    buffers: ManuallyDrop<Buffers>,
    reads: Vec<Read>,
    /// Reads that the kernel may write to the buffers of, and those that wait in the queue.
    in_flight: usize,
    /// Number of reads that were put into the queue so far.
    pushed: u64,
    /// Error of a kernel that takes no reads any more.
    refused: Option<io::Error>,
}

/// Read of a window into the buffer with the same index.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    window: usize,
    /// Bytes that are there.
    filled: usize,
    tries: u32,
    /// Number among all reads that were put into the queue, while this one is in flight.
    number: Option<u64>,
}

/// Progress of a batch.
struct Batch {
    free: Vec<usize>,
    /// Reads to begin again, after a short one or a full queue.
    again: Vec<usize>,
    /// Windows that the thread reads by itself.
    alone: Vec<usize>,
    next: usize,
    failed: Option<Error>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

impl Ring {
    /// Sets up a ring, and sees that the kernel takes and completes something.
    ///
    /// # Errors
    /// The kernel has none, refuses it to this process, or has no files or memory left.
    pub(super) fn new() -> io::Result<Self> {
        // Completions need no interrupt of the thread: it asks for them. Older kernels do not know the flag.
        let ring = IoUring::builder().setup_coop_taskrun().build(DEPTH as u32);
        let mut ring =
            ring.or_else(|error| if is_unknown(&error) { IoUring::new(DEPTH as u32) } else { Err(error) })?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        #[expect(unsafe_code, reason = "a request to the kernel")]
        // SAFETY: the request has no memory.
        let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
        pushed.map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
        while let Err(error) = ring.submit_and_wait(1) {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        ring.completion().next().ok_or(io::ErrorKind::Unsupported)?;
        let buffers = ManuallyDrop::new(Buffers::new(DEPTH, WINDOW));
        Ok(Self { ring, buffers, reads: vec![Read::default(); DEPTH], in_flight: 0, pushed: 0, refused: None })
    }

    /// Returns true if another batch can be read.
    pub(super) const fn is_ready(&self) -> bool {
        self.in_flight == 0 && self.refused.is_none()
    }

    /// Error of a kernel that takes no reads any more.
    pub(super) const fn refused(&self) -> Option<&io::Error> {
        self.refused.as_ref()
    }

    /// Reads all windows, in any order. After an error begun reads are awaited, and no others begin.
    ///
    /// # Errors
    /// [`Error::Io`], or the first error of `take`.
    pub(super) fn read(&mut self, job: &Job<'_>, take: Take<'_>) -> Result<(), Error> {
        debug_assert!(self.is_ready(), "a ring is handed on when it is idle");
        let (free, again, alone) = ((0..DEPTH).collect(), Vec::new(), Vec::new());
        let mut batch = Batch { free, again, alone, next: 0, failed: None };
        // Calls in a row that brought nothing.
        let mut idle = 0;
        loop {
            self.fill(&mut batch, job);
            if self.in_flight == 0 {
                // The queue takes nothing and owes nothing: the thread reads by itself.
                let Some(window) = self.next_alone(&mut batch, job).filter(|_| batch.failed.is_none()) else { break };
                batch.failed = read_alone(window, job, take).err();
                continue;
            }
            let wait = if batch.failed.is_some() { self.in_flight } else { self.in_flight.min(WAIT) };
            let entered = match job.disk.enters_ring() {
                Ok(()) => self.ring.submit_and_wait(wait).map(|_| ()),
                Err(error) => Err(error),
            };
            let ended = self.reap(&mut batch, job, take);
            idle = if ended > 0 { 0 } else { idle + 1 };
            match entered {
                Ok(()) if idle < TRIES => {}
                Ok(()) => self.give_up(io::ErrorKind::TimedOut.into(), &mut batch, job, take),
                // A signal, or memory or completions ran short: what has ended makes room.
                Err(error) if is_transient(&error) && idle < TRIES => {
                    if ended == 0 && error.kind() != io::ErrorKind::Interrupted {
                        std::thread::sleep(PAUSE);
                    }
                }
                Err(error) => self.give_up(error, &mut batch, job, take),
            }
        }
        batch.failed.map_or(Ok(()), Err)
    }

    /// Puts reads into the queue until it is full, or all buffers are in use.
    fn fill(&mut self, batch: &mut Batch, job: &Job<'_>) {
        let mut began = 0;
        while batch.failed.is_none() && self.refused.is_none() {
            let slot = match batch.again.pop() {
                Some(slot) => slot,
                None if batch.next == job.windows.len() => break,
                None => match batch.free.pop() {
                    Some(slot) => {
                        self.reads[slot] = Read { window: batch.next, ..Read::default() };
                        batch.next += 1;
                        slot
                    }
                    None => break,
                },
            };
            if job.disk.is_queue_full() || !self.push(slot, job) {
                batch.again.push(slot);
                break;
            }
            began += 1;
        }
        job.counts.began(began);
    }

    /// Window that the thread reads by itself, if there is one.
    fn next_alone(&self, batch: &mut Batch, job: &Job<'_>) -> Option<usize> {
        if let Some(window) = batch.alone.pop() {
            return Some(window);
        }
        if let Some(slot) = batch.again.pop() {
            batch.free.push(slot);
            return Some(self.reads[slot].window);
        }
        let next = (batch.next < job.windows.len()).then_some(batch.next)?;
        batch.next += 1;
        Some(next)
    }

    /// Hands on what has ended; returns how many reads that are.
    fn reap(&mut self, batch: &mut Batch, job: &Job<'_>, take: Take<'_>) -> usize {
        let (mut ended, mut bytes) = (0, 0);
        while let Some((slot, result)) = self.completed() {
            ended += 1;
            let window = job.windows[self.reads[slot].window];
            let target = &job.targets[window.target];
            let read = &mut self.reads[slot];
            match job.disk.completed(&target.path, result) {
                Err(error) if is_transient(&error) => {
                    read.tries += 1;
                    if read.tries < TRIES {
                        batch.again.push(slot);
                    } else {
                        batch.alone.push(read.window);
                        batch.free.push(slot);
                    }
                    continue;
                }
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    job.was_refused(window.begin + read.filled as u64, window.len - read.filled);
                    batch.alone.push(read.window);
                    batch.free.push(slot);
                    continue;
                }
                Err(error) => {
                    batch.failed.get_or_insert(at(&target.path)(error));
                    batch.free.push(slot);
                    continue;
                }
                Ok(more) => {
                    bytes += more;
                    read.filled += more;
                    // At its end a file has no more, and a read that ends within a unit is at the end.
                    let unit = job.unit.load(Ordering::Relaxed) as usize;
                    if more > 0 && read.filled < window.len && read.filled.is_multiple_of(unit) {
                        batch.again.push(slot);
                        continue;
                    }
                }
            }
            let (window, filled) = (read.window, read.filled);
            if batch.failed.is_none() {
                #[expect(unsafe_code, reason = "memory that the kernel has written to")]
                // SAFETY: the read of this buffer has ended, and none begins before `taken` is there.
                let taken = take(window, unsafe { self.buffers.bytes(slot, filled) });
                batch.failed = taken.err();
            }
            batch.free.push(slot);
        }
        job.counts.ended(ended, bytes);
        ended
    }

    /// Ends the use of a ring that the kernel serves no more: awaits what it has begun, and leaves the rest to the thread.
    fn give_up(&mut self, error: io::Error, batch: &mut Batch, job: &Job<'_>, take: Take<'_>) {
        self.refused = Some(error);
        // The kernel has taken reads in order. It takes no more, because it is not called again.
        let untaken = self.ring.submission().len() as u64;
        let taken = self.pushed - untaken;
        let mut back: Vec<usize> = Vec::new();
        back.extend((0..DEPTH).filter(|slot| self.reads[*slot].number.is_some_and(|number| number >= taken)));
        self.in_flight -= back.len();
        job.counts.took_back(back.len());
        for slot in back {
            self.reads[slot].number = None;
            batch.alone.push(self.reads[slot].window);
            batch.free.push(slot);
        }
        let begin = Instant::now();
        while self.in_flight > 0 && begin.elapsed() < LAST {
            if self.reap(batch, job, take) == 0 {
                std::thread::sleep(PAUSE);
            }
        }
        // Their buffers are never used again, and never freed: the kernel may still write to them.
        let lost = self.reads.iter().filter(|read| read.number.is_some());
        batch.alone.extend(lost.map(|read| read.window));
        job.counts.took_back(self.in_flight);
        if self.in_flight > 0 {
            self.buffers = ManuallyDrop::new(Buffers::new(DEPTH, WINDOW));
            self.in_flight = 0;
            // Another ring would cost as much memory.
            self.refused = Some(io::ErrorKind::Unsupported.into());
        }
    }

    /// Puts a read into the queue; false if it is full.
    fn push(&mut self, slot: usize, job: &Job<'_>) -> bool {
        let Read { window, filled, .. } = self.reads[slot];
        let window = &job.windows[window];
        let target = &job.targets[window.target];
        let len = window.len - filled;
        let part = self.buffers.part(slot, filled, len);
        let read = opcode::Read::new(Fd(window.file(target).as_raw_fd()), part, len as u32)
            .offset(window.begin + filled as u64)
            .build();
        #[expect(unsafe_code, reason = "the kernel writes to a buffer")]
        // SAFETY: the buffer is alive as long as a read of it is in flight (`drop`, `give_up`), and until it has ended no other
        // read uses this buffer. The file is open until the batch ends, and reads in flight hold it by themselves.
        let pushed = unsafe { self.ring.submission().push(&read.user_data(slot as u64)) };
        if pushed.is_ok() {
            self.reads[slot].number = Some(self.pushed);
            self.pushed += 1;
            self.in_flight += 1;
        }
        pushed.is_ok()
    }

    /// Next read that has ended: its slot, and the bytes that it brought.
    fn completed(&mut self) -> Option<(usize, io::Result<usize>)> {
        let entry = self.ring.completion().next()?;
        let slot = entry.user_data() as usize;
        self.in_flight -= 1;
        self.reads[slot].number = None;
        let result = usize::try_from(entry.result()).map_err(|_| io::Error::from_raw_os_error(-entry.result()));
        Some((slot, result))
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

/// Returns true if the kernel does not know a flag.
fn is_unknown(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

impl Drop for Ring {
    fn drop(&mut self) {
        // After a panic reads may be in flight, or wait in the queue: then the queue is emptied first.
        let mut tries = 0;
        while self.in_flight > 0 && self.refused.is_none() && tries < TRIES {
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
