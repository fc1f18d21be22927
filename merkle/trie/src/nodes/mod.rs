//! Nodes in memory: arenas of branches and leaves, 256 shards of them, and the top of a trie that is spread over all.
//!
//! A node never changes once its version is complete. An update makes new ones beside the old, and its [`Journal`] says
//! which became superfluous.

mod journal;
mod top;
mod shard;
mod arena;
mod branches;
mod node;

pub(crate) use branches::Child;
pub(crate) use journal::{Journal, What};
pub(crate) use node::{Leaf, Name, Node, Reference};
pub(crate) use shard::{Root, SHARDS, Shard, Storage};
pub(crate) use top::{Middle, Piece, Top};
