//! Opens the log of a backend.

use phalanx_merkle_proof::Params;

use super::{backend::Log, disk::Disk, file::FileLog, index::LogIndex, mem::MemLog};
use crate::types::{Backend, Durability, Error};

/// Opens or creates a log.
///
/// The part that `note` indexes, if it fits the log, is not scanned. `past_cache` is true if so little of the log will be read
/// that written data should bypass the page cache.
pub(crate) fn open_log(
    backend: &Backend,
    durability: Durability,
    past_cache: bool,
    params: &Params,
    note: Option<&LogIndex>,
    disk: Disk,
) -> Result<Box<dyn Log>, Error> {
    #[cfg(not(feature = "rocksdb"))]
    let _ = past_cache;
    Ok(match backend {
        Backend::Mem => Box::new(MemLog::default()),
        Backend::File(dir) => Box::new(FileLog::open(dir, durability, params, note, disk)?),
        #[cfg(feature = "rocksdb")]
        Backend::Rocks(dir) => Box::new(super::rocks::RocksLog::open(dir, durability, past_cache, params, note, disk)?),
    })
}
