//! The log on RocksDB.

mod rocks_log;
mod options;
mod table;
mod direct;

pub(crate) use rocks_log::RocksLog;
