//! The only way from a store to its disk: counts operations, and lets tests inject faults.

use std::{
    fs::File,
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use crate::metrics;
use crate::types::{Error, Faults, Step, Verdict};

/// File operations of logs and checkpoints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    /// `None` except in tests.
    faults: Option<Arc<dyn Faults>>,
}

impl Disk {
    pub(crate) const fn new(faults: Option<Arc<dyn Faults>>) -> Self {
        Self { faults }
    }

    /// Checks with the injected faults whether a step may be taken; the caller takes it.
    ///
    /// # Errors
    /// [`Error::Io`] if the step fails.
    #[inline]
    pub(crate) fn ask(&self, step: Step<'_>) -> Result<(), Error> {
        match &self.faults {
            None => Ok(()),
            Some(faults) => match faults.before(step) {
                Verdict::Go => Ok(()),
                Verdict::Fail(source) | Verdict::Tear(_, source) => Err(at(path_of(step))(source)),
            },
        }
    }

    /// Size after which a file or batch takes no further block, and from which on a block brings a table of its own.
    pub(super) fn segment_bytes(&self, default: u64) -> u64 {
        self.faults.as_ref().and_then(|faults| faults.segment_bytes()).unwrap_or(default)
    }

    /// Result of a read that a ring completed.
    #[inline]
    pub(super) fn completed(&self, path: &Path, bytes: io::Result<usize>) -> io::Result<usize> {
        match &self.faults {
            None => bytes,
            Some(faults) => faults.completed(path, bytes),
        }
    }

    /// Returns true if a ring's queue is said to be full.
    #[inline]
    pub(super) fn is_queue_full(&self) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.is_queue_full())
    }

    /// Checks whether the system is said to refuse another ring.
    pub(super) fn makes_ring(&self) -> io::Result<()> {
        self.faults.as_ref().and_then(|faults| faults.refuses_ring()).map_or(Ok(()), Err)
    }

    /// Checks whether the kernel is said to refuse to look at a ring's queue.
    #[inline]
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has rings"))]
    pub(super) fn enters_ring(&self) -> io::Result<()> {
        self.faults.as_ref().and_then(|faults| faults.refuses_to_enter()).map_or(Ok(()), Err)
    }

    pub(crate) fn append(&self, mut file: &File, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        if let Some(faults) = &self.faults {
            match faults.before(Step::Append(path, bytes.len())) {
                Verdict::Go => {}
                Verdict::Fail(source) => return Err(at(path)(source)),
                Verdict::Tear(len, source) => {
                    file.write_all(&bytes[..len.min(bytes.len())]).map_err(at(path))?;
                    return Err(at(path)(source));
                }
            }
        }
        file.write_all(bytes).map_err(at(path))?;
        metrics::wrote(bytes.len());
        Ok(())
    }

    /// Overwrites part of a file.
    pub(super) fn overwrite(&self, file: &File, path: &Path, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let mut torn = None;
        if let Some(faults) = &self.faults {
            match faults.before(Step::Overwrite(path, offset, bytes.len())) {
                Verdict::Go => {}
                Verdict::Fail(source) => return Err(at(path)(source)),
                Verdict::Tear(len, source) => torn = Some((len.min(bytes.len()), source)),
            }
        }
        let len = torn.as_ref().map_or(bytes.len(), |(len, _)| *len);
        write_at(file, &bytes[..len], offset).map_err(at(path))?;
        metrics::wrote(len);
        torn.map_or(Ok(()), |(_, source)| Err(at(path)(source)))
    }

    pub(crate) fn cut(&self, file: &File, path: &Path, len: u64) -> Result<(), Error> {
        self.ask(Step::Cut(path, len))?;
        file.set_len(len).map_err(at(path))
    }

    pub(crate) fn sync(&self, file: &File, path: &Path) -> Result<(), Error> {
        self.ask(Step::Sync(path))?;
        file.sync_data().map_err(at(path))?;
        metrics::synced();
        Ok(())
    }

    /// Makes the names in a directory durable.
    pub(crate) fn sync_names(&self, dir: &Path) -> Result<(), Error> {
        self.ask(Step::SyncNames(dir))?;
        // On some systems a directory cannot be opened, and so not synced either.
        File::open(dir).map_or(Ok(()), |dir_file| dir_file.sync_all().map_err(at(dir)))
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        self.ask(Step::Rename(from, to))?;
        std::fs::rename(from, to).map_err(at(from))
    }

    pub(super) fn remove(&self, path: &Path) -> Result<(), Error> {
        self.ask(Step::Remove(path))?;
        std::fs::remove_file(path).map_err(at(path))
    }
}

/// Writes at an offset without moving the file's cursor.
#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    file.write_all_at(bytes, offset)
}

/// Writes at an offset.
#[cfg(windows)]
fn write_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt as _;
    while !bytes.is_empty() {
        let written = file.seek_write(bytes, offset)?;
        (bytes, offset) = (&bytes[written..], offset + written as u64);
    }
    Ok(())
}

const fn path_of(step: Step<'_>) -> &Path {
    match step {
        Step::Read(path)
        | Step::Append(path, _)
        | Step::Overwrite(path, ..)
        | Step::Cut(path, _)
        | Step::Sync(path)
        | Step::SyncNames(path)
        | Step::Rename(path, _)
        | Step::Remove(path)
        | Step::Batch(path, _)
        | Step::Flush(path) => path,
    }
}

/// Adds the path to an error of the file system.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io { path: path.to_path_buf(), source }
}
