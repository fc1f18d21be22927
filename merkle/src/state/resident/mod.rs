//! The state in memory: records of keys and values, an index to find them, and their order by key hash.

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
