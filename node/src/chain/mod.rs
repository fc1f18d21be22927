//! The chain as readers see it: committed blocks, the states after them, and the events of new blocks.

mod open;
mod forks;
mod view;
mod sink;
mod recent;
mod anchor;
mod metadata;
mod failure;
mod returns;
mod awaited;

pub(crate) use anchor::AnchorFiles;
pub(crate) use awaited::{Awaiting, Placed};
pub(crate) use failure::StateUnread;
pub(crate) use forks::forks;
pub(crate) use metadata::Metadata;
pub(crate) use open::{Opened, engine_store, make_folder};
pub(crate) use returns::Missed;
pub(crate) use view::{Chain, Finality, Shown};
