//! References of new nodes: leaves first, then branches level by level from the deepest, side by side in lanes.

mod levels;
mod many;
mod node;
mod rlp;

pub(crate) use levels::{LeafValues, levels};
pub(crate) use many::Many;
pub(crate) use node::{branch_of, extension, leaf, reference_of, stored_branch};
pub(crate) use rlp::{account_value, slot_value};
