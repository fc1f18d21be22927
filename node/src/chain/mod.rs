//! The chain as readers see it: committed blocks, the states after them, and the events of new blocks.

mod open;
mod view;
mod sink;
mod failure;

pub(crate) use failure::StateUnread;
pub(crate) use open::Opened;
pub(crate) use view::Chain;
