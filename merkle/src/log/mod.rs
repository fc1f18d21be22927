//! The log: where blocks go so that they outlive the process.

mod backend;
mod disk;
mod file;
mod frames;
mod index;
mod mem;
mod open;
mod pending;
mod places;
mod record;
#[cfg(feature = "rocksdb")]
mod rocks;

pub(crate) use backend::{Batch, Log, Spot};
pub(crate) use disk::{Disk, at};
pub(crate) use index::{Note, Noted};
pub(crate) use open::open_log;
pub use pending::Pending;
pub(crate) use pending::{Shared, Write};
pub(crate) use record::{
    BlockRow, ExtentHead, ExtentItem, ExtentWriter, FRAME_HEADER, Fields, Kind, Rows, TipRow, check_params,
    encode_params, extent_head, frame_body, frame_header, read_extent,
};
