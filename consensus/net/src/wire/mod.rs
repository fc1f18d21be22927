//! Bytes on a connection: frames, their authentication, and the greeting that opens it.

mod hello;
mod seal;
mod frame;
mod refused;
mod timed;
mod weight;

pub(crate) use frame::{has_frame, read_frame, write_frame};
pub(crate) use hello::{accept, dial, instance};
pub(crate) use refused::Refusals;
pub use refused::Refused;
pub(crate) use seal::{Identity, Seal};
pub(crate) use timed::Timed;
pub(crate) use weight::{ITEM, weigh};
