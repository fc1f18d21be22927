//! Opens the log of a backend.

use super::{
    backend::{Log, Opening},
    file::FileLog,
    identity::Place,
    mem::MemLog,
};
use crate::types::Error;

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
