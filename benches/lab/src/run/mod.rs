//! A timed run of a load, and the oracle that checks it.

pub mod oracle;
pub mod drive;
mod setup;
mod arrivals;
pub(crate) mod timeline;
pub mod trace;
pub mod engines;
