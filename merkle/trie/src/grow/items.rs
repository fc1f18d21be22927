//! Nodes whose references are to be computed.

use crate::nodes::Node;

/// Index of nothing.
pub(crate) const NONE: u32 = u32::MAX;

/// A node whose reference is to be computed, because it is new, has another value, or hangs elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) node: Node,
    /// Change that the value of a leaf is from, or [`NONE`]: the leaf moved.
    pub(crate) change: u32,
    /// Task that it belongs to.
    pub(crate) task: u32,
    pub(crate) up: Up,
    pub(crate) shard: u8,
    /// Nibbles above it: an extension or a leaf's path begins here.
    pub(crate) at: u8,
    /// Nibbles above a branch and its extension.
    pub(crate) depth: u8,
    /// Number of a branch's children.
    pub(crate) children: u8,
}

/// Place where a reference belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Up {
    /// Result of the task: the node is the subtrie's topmost.
    Task,
    /// Child of a branch.
    Branch { branch: u32, nibble: u8 },
}
