//! Opens the log of a backend.

use phalanx_merkle_proof::Params;

use super::{backend::Log, disk::Disk, file::FileLog, identity::Place, index::LogIndex, mem::MemLog};
use crate::types::{Access, Durability, Error};

/// Way to open a log.
#[derive(Clone, Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) access: Access,
    pub(crate) durability: Durability,
    /// True if so little of the log will be read that written data should bypass the page cache.
    pub(crate) past_cache: bool,
    pub(crate) params: &'a Params,
    /// Index whose part of the log, if it fits the log, is not scanned.
    pub(crate) note: Option<&'a LogIndex>,
    pub(crate) disk: Disk,
}

/// Opens or creates the log at a place; without one, in memory. The caller checks its content and calls
/// [`Log::heal`], before which a log that was there is not changed.
///
/// # Errors
/// [`Error::Locked`], [`Error::Format`], [`Error::Corrupt`], or what the backend reports.
pub(crate) fn open_log(place: Option<&Place>, opening: Opening<'_>) -> Result<Box<dyn Log>, Error> {
    let Some(place) = place else { return Ok(Box::new(MemLog::default())) };
    #[cfg(feature = "rocksdb")]
    if place.is_rocks() {
        return Ok(Box::new(super::rocks::RocksLog::open(place, opening)?));
    }
    Ok(Box::new(FileLog::open(place, opening)?))
}
