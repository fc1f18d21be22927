//! The log on RocksDB: only the files of this folder use it.
//!
//! | family | key | record |
//! |---|---|---|
//! | `entries` | extent number, big endian | extent |
//! | `blocks` | block id, big endian | block |
//! | `meta` | `params`, `tip` | params; tip |
//! | `code` | code hash | code |
//!
//! Keys of `entries` only ascend and are never deleted one by one: files never overlap, so compaction moves files
//! instead of rewriting them. A tombstone or a second compression type would end that. A large block's extents come as
//! a table of their own; those of small blocks go through the write-ahead log.

mod opening;
mod rocks_log;
mod database;
mod options;
mod table;
mod wal;
mod direct;

pub(super) use database::params_row;
pub(crate) use rocks_log::RocksLog;
