//! The current state in memory: keys, values, where in the log each value was written, and the ring of keys.

mod load;
mod view;
mod state;
mod slab;
mod key_order;
mod index;
mod owners;

pub(crate) use index::MAX_KEYS;

pub(crate) use key_order::KEY_ORDER_LOOKAHEAD;
pub(crate) use load::Run;
pub(crate) use slab::{PackedWritten, Part};
pub(crate) use state::Resident;

#[cfg(test)]
mod tests;
