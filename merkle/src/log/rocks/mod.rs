//! The log on RocksDB.

mod direct;
mod options;
mod rocks_log;
mod table;

pub(crate) use rocks_log::RocksLog;
