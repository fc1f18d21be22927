//! A timed run of a load, and the oracle that checks it.

pub mod oracle;
pub mod drive;
mod setup;
pub(crate) mod place;
pub mod genesis;
mod arrivals;
pub(crate) mod timeline;
pub mod trace;
pub mod engines;
