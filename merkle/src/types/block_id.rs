//! The name of a block.

/// Identifies a block among all that a store ever had, siblings included.
///
/// The id stays the same when the store is reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub(crate) u64);
