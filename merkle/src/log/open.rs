use phalanx_merkle_proof::Params;

use super::{backend::Log, disk::Disk, file::FileLog, index::LogIndex, mem::MemLog};
use crate::types::{Backend, Durability, Error};

/// Opens or creates a log.
///
/// What `note` says of the log, if it fits, is not looked for again. `past_cache` says whether so little
/// of the log is going to be read that what is written should not stay in the page cache.
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
