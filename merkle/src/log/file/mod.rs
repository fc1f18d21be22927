//! The log in files: segments of frames, and a file of code.

mod index;
mod read;
mod reading;
mod file_log;
mod state;
mod segment;

pub(crate) use file_log::FileLog;
pub(super) use file_log::refuse_format_1;
pub(super) use segment::{number_of, params_row};
