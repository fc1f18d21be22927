//! The current state in memory: keys, values, where in the log each value was written, and the ring of keys.

mod index;
mod key_order;
mod load;
mod owners;
mod slab;
mod state;
mod view;

pub(crate) use index::MAX_KEYS;

pub(crate) use key_order::AHEAD;
pub(crate) use load::Run;
pub(crate) use slab::{Packed, Part};
pub(crate) use state::Resident;

#[cfg(test)]
mod tests;
