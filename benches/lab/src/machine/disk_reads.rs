//! The disk's own figure: random direct reads of 4 KiB, with a number of them in flight.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Reads in flight that are measured.
pub const DEPTHS: [usize; 5] = [1, 8, 32, 64, 128];

/// Bytes of a page, the usual unit of such figures.
pub const PAGE: u64 = 4096;

/// Random reads per second, by reads in flight.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct RandomReads {
    /// Bytes of a read, at a multiple of as many.
    pub bytes: u64,
    /// Depth and reads per second.
    pub per_s: Vec<(usize, f64)>,
}

impl RandomReads {
    /// The highest rate.
    pub fn best(&self) -> f64 {
        self.per_s.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    /// Measures these files, which together should be larger than the disk's own cache, with reads of `bytes`, a multiple of
    /// [`PAGE`]. Takes 0.4 s per depth.
    ///
    /// # Errors
    /// The system has no io_uring, refuses it or direct reads, or the files cannot be read.
    pub fn of(files: &[PathBuf], bytes: u64) -> io::Result<Self> {
        let files = reading::open(files, bytes)?;
        let measure = |depth| reading::rate(&files, bytes, depth).map(|rate| (depth, rate));
        Ok(Self { bytes, per_s: DEPTHS.into_iter().map(measure).collect::<io::Result<_>>()? })
    }

    /// Measures a new file in a folder, which is removed again.
    ///
    /// # Errors
    /// As [`Self::of`], or the file cannot be written.
    pub fn in_folder(dir: &Path) -> io::Result<Self> {
        use std::io::Write as _;
        const CHUNK: usize = 1 << 20;
        const CHUNKS: usize = 256;
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        let mut chunk = vec![0x5a; CHUNK];
        for number in 0..CHUNKS {
            // No two pages are alike, for disks that keep equal pages once.
            chunk.chunks_mut(PAGE as usize).enumerate().for_each(|(block, bytes)| {
                bytes[..8].copy_from_slice(&((number * CHUNK + block) as u64).to_be_bytes());
            });
            file.write_all(&chunk)?;
        }
        file.as_file().sync_all()?;
        Self::of(&[file.path().to_path_buf()], PAGE)
    }
}

#[cfg(not(target_os = "linux"))]
mod reading {
    use std::{fs::File, io, path::PathBuf};

    pub(super) fn open(_: &[PathBuf], _: u64) -> io::Result<Vec<(File, u64)>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn rate(_: &[(File, u64)], _: u64, _: usize) -> io::Result<f64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(target_os = "linux")]
mod reading {
    use super::PAGE;
    use io_uring::{IoUring, opcode, types::Fd};
    use rand::{Rng as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;
    use std::{
        fs::{File, OpenOptions},
        io,
        mem::ManuallyDrop,
        os::{fd::AsRawFd as _, unix::fs::OpenOptionsExt as _},
        path::PathBuf,
        time::{Duration, Instant},
    };

    /// Time of a measurement.
    const TIME: Duration = Duration::from_millis(400);

    /// Opens files past the page cache, with the number of places to read in each.
    pub(super) fn open(files: &[PathBuf], bytes: u64) -> io::Result<Vec<(File, u64)>> {
        let open = |path: &PathBuf| -> io::Result<(File, u64)> {
            let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path)?;
            let places = file.metadata()?.len() / bytes;
            Ok((file, places))
        };
        let files = files.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let files: Vec<_> = files.into_iter().filter(|(_, places)| *places > 0).collect();
        if files.is_empty() { Err(io::Error::other("there is nothing to read")) } else { Ok(files) }
    }

    /// Reads per second with `depth` in flight.
    pub(super) fn rate(files: &[(File, u64)], bytes: u64, depth: usize) -> io::Result<f64> {
        let mut ring = IoUring::new(depth as u32)?;
        let each = bytes as usize;
        // Freed only when no read is in flight.
        let mut memory = ManuallyDrop::new(vec![0u8; each * depth + PAGE as usize]);
        let start = memory.as_mut_ptr();
        let start = start.wrapping_add(start.align_offset(PAGE as usize));
        let mut numbers = ChaCha8Rng::seed_from_u64(42);
        let (mut free, mut in_flight, mut done): (Vec<usize>, usize, u64) = ((0..depth).collect(), 0, 0);
        let (begin, mut failed) = (Instant::now(), None);
        loop {
            let goes_on = failed.is_none() && begin.elapsed() < TIME;
            while goes_on && let Some(slot) = free.pop() {
                let (file, places) = &files[numbers.random_range(0..files.len())];
                let offset = numbers.random_range(0..*places) * bytes;
                let read = opcode::Read::new(Fd(file.as_raw_fd()), start.wrapping_add(slot * each), bytes as u32);
                #[expect(unsafe_code, reason = "the kernel writes to a buffer")]
                // SAFETY: the buffer of a slot has no other read in flight, and is freed only when none is.
                let pushed = unsafe { ring.submission().push(&read.offset(offset).build().user_data(slot as u64)) };
                pushed.map_err(|_| io::Error::other("the queue is as long as the depth"))?;
                in_flight += 1;
            }
            if in_flight == 0 {
                break;
            }
            match ring.submit_and_wait((in_flight / 8).max(1)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for entry in ring.completion() {
                in_flight -= 1;
                free.push(entry.user_data() as usize);
                match entry.result() {
                    0.. => done += 1,
                    code => _ = failed.get_or_insert(io::Error::from_raw_os_error(-code)),
                }
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        drop(ring);
        drop(ManuallyDrop::into_inner(memory));
        failed.map_or(Ok(done as f64 / seconds), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_measured_and_left_empty() {
        let dir = tempfile::tempdir().expect("a folder");
        // Where there are no direct reads there is no figure.
        if let Ok(reads) = RandomReads::in_folder(dir.path()) {
            assert_eq!(reads.per_s.iter().map(|(depth, _)| *depth).collect::<Vec<_>>(), DEPTHS);
            assert!(reads.best() > 0.0);
        }
        assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 0);
        assert!(RandomReads::of(&[], PAGE).is_err());
        assert!(RandomReads::in_folder(&dir.path().join("none")).is_err());
    }
}
