//! Bytes behind the whole records of a file: torn by a crash, or damaged.

use super::{
    disk::{beside, sync_folder},
    mark::Mark,
};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

/// Bytes behind the whole records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    Whole,
    Torn { promised: bool },
    Damaged,
}

impl Tail {
    /// Judges what follows the whole records, which end at `at`.
    pub(crate) fn of(file: &File, at: u64, length: u64, mark: &Mark) -> io::Result<Self> {
        if at >= mark.end {
            return Ok(if length == at { Self::Whole } else { Self::Torn { promised: false } });
        }
        // A promised record that is there to its end was damaged afterwards; one that is cut short lost its last write.
        let cut_short = at == mark.begin && written_end(file, at, length)? < mark.end;
        Ok(if cut_short { Self::Torn { promised: true } } else { Self::Damaged })
    }
}

/// End of what is not zero behind `at`.
fn written_end(mut file: &File, at: u64, length: u64) -> io::Result<u64> {
    file.seek(SeekFrom::Start(at))?;
    let (mut chunk, mut seen, mut end) = (vec![0; 1 << 16], at, at);
    while seen < length {
        let wanted = chunk.len().min((length - seen) as usize);
        let chunk = &mut chunk[..wanted];
        file.read_exact(chunk)?;
        if let Some(last) = chunk.iter().rposition(|byte| *byte != 0) {
            end = seen + last as u64 + 1;
        }
        seen += wanted as u64;
    }
    Ok(end)
}

/// Copies what follows `at` to a new file beside the file, synced, and returns its path.
pub(crate) fn keep(mut file: &File, path: &Path, at: u64) -> io::Result<PathBuf> {
    for number in 0.. {
        let kept = beside(path, &if number == 0 { format!(".{at}.torn") } else { format!(".{at}.{number}.torn") });
        let mut copy = match OpenOptions::new().write(true).create_new(true).open(&kept) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            opened => opened?,
        };
        file.seek(SeekFrom::Start(at))?;
        io::copy(&mut file, &mut copy)?;
        copy.sync_all()?;
        sync_folder(path)?;
        return Ok(kept);
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
