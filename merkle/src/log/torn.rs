//! Keeps what opening cuts off beside its file.

use std::{
    fs::File,
    io,
    ops::Range,
    path::{Path, PathBuf},
};

use super::{
    disk::{Disk, at},
    frames::read_at,
};
use crate::types::Error;

/// Bytes that are copied at a time.
const CHUNK: u64 = 1 << 20;

/// Copies the end of a file durably to a file beside it, which the next torn end of the same file replaces. `None` if the
/// disk or a quota has no room: a store on a full disk opens, and what is cut off was never promised.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn keep(file: &File, path: &Path, from: u64, end: u64, disk: &Disk) -> Result<Option<PathBuf>, Error> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".torn");
    let kept = path.with_file_name(name);
    match copy_to(&kept, file, path, from..end, disk) {
        Ok(()) => Ok(Some(kept)),
        Err(Error::Io { source, .. }) if is_no_room(&source) => {
            if kept.exists() {
                disk.remove(&kept)?;
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns true if a disk, a quota or a limit of the process leaves no room for what was to be written.
fn is_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

fn copy_to(kept: &Path, file: &File, path: &Path, part: Range<u64>, disk: &Disk) -> Result<(), Error> {
    let Range { start: from, end } = part;
    let copy = std::fs::OpenOptions::new().append(true).create(true).open(kept).map_err(at(kept))?;
    disk.cut(&copy, kept, 0)?;
    let mut offset = from;
    while offset < end {
        let mut bytes = vec![0; (end - offset).min(CHUNK) as usize];
        let read = read_at(file, &mut bytes, offset).map_err(at(path))?;
        if read == 0 {
            return Err(at(path)(io::ErrorKind::UnexpectedEof.into()));
        }
        disk.append(&copy, kept, &bytes[..read])?;
        offset += read as u64;
    }
    disk.sync(&copy, kept)?;
    if let Some(dir) = path.parent() {
        disk.sync_names(dir)?;
    }
    Ok(())
}
