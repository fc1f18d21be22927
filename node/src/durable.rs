//! Small files of a node's folder that are replaced as a whole.

use crate::error::NodeError;
use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
};

/// Replaces a file as a whole: after a power cut it is the old one or the new one.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), NodeError> {
    let new = path.with_added_extension("new");
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    write().map_err(|error| failed(path, &error))
}

/// The error of a file.
pub(crate) fn failed(path: &Path, why: &dyn core::fmt::Display) -> NodeError {
    NodeError::Setting(format!("{}: {why}", path.display()))
}
