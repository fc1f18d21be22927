//! A state of which only some nodes are known, as a witness shows them: values under its root, and the root after changes.

mod source;
mod state;
mod subtrie;

pub use source::{Nodes, Owner, Place};
pub use state::{Partial, PartialError};
