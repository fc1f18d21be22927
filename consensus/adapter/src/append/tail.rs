//! The end of a file that a crash has torn.

use super::disk::{beside, sync_folder};
use std::{
    fs::{File, OpenOptions},
    io::{self, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

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
