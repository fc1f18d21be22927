//! The log in files.

mod file_log;
mod index;
mod segment;
mod state;

pub(crate) use file_log::FileLog;
