//! Finalises a block that ran: gas, receipts, logs bloom, receipts root, access list.

pub(crate) mod access_list;
mod info;
mod receipts;
mod stages;

pub(crate) use info::Sealing;
pub use info::{BlockInfo, BlockStats};
pub(crate) use stages::Ran;
pub use stages::{Committed, Executed, Merkleized};
