//! A log in the place of another one.

use alloy_primitives::Bytes;
use phalanx_adapter::{Sync, Wal, WalError};
use std::path::Path;

/// Begins a log with these records, durably. The one before, whatever its condition and whosever it is, is kept beside it.
pub(crate) fn begin_log(path: &Path, records: &[Bytes]) -> Result<(), WalError> {
    let is_empty = match Wal::open(path, Sync::Always) {
        Ok((_, found)) => found.is_empty(),
        Err(WalError::Corrupt { .. } | WalError::Format { .. }) => false,
        Err(error) => return Err(error),
    };
    if !is_empty {
        let kept = path.with_extension("before-snapshot");
        std::fs::rename(path, &kept).map_err(|source| WalError::Io { path: kept, source })?;
    }
    Wal::open(path, Sync::Always)?.0.replace(records)
}
