//! Methods of a node for development, by the names that tools know: `evm_*`, `anvil_*`, `hardhat_*`.
//!
//! One function stands behind all names of a method. What changes the chain is an [`Order`](crate::orders::Order) to the producer, which obeys it between two
//! blocks; what concerns the next block alone is said to [`Next`](crate::next::Next).

mod blocks;
mod common;
mod dump;
mod info;
mod state;
mod time;

use super::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    for register in [blocks::register, time::register, state::register, dump::register, info::register] {
        register(registry);
    }
}
