//! The log, which makes blocks outlive the process: the interface, its three backends, and the queue of pending writes.

mod open;
mod torn;
mod lock;
mod promise;
mod identity;
mod pending;
#[cfg(feature = "rocksdb")]
mod rocks;
mod file;
mod mem;
mod frames;
mod disk;
mod backend;
mod places;
mod index;
mod record;

pub(crate) use backend::{Batch, Files, Log, Opening, Spot};
pub(crate) use disk::{Disk, at};
pub use identity::Identity;
pub(crate) use identity::Place;
pub(crate) use index::{IndexedBlock, LogIndex};
pub(crate) use open::open_log;
pub use pending::Pending;
pub(crate) use pending::{Shared, Write};
pub(crate) use record::{
    BlockRecord, EXTENT_ENTRIES, ExtentHead, ExtentItem, ExtentWriter, FRAME_HEADER, Fields, Kind, Marks, Records,
    TipRecord, check_params, encode_params, extent_head, frame_body, frame_header, in_words, params_in, read_extent,
};
