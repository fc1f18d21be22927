//! The log in files.

mod index;
mod file_log;
mod state;
mod segment;

pub(crate) use file_log::FileLog;
