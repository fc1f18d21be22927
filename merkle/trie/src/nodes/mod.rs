//! Nodes in memory: arenas of branches and leaves, 256 shards of them, and the top of a trie that is spread over all.
//!
//! The trie stands at one version. An update changes references in branches that stay as they are otherwise, and makes new
//! nodes beside the old where children come or go. Its [`Journal`] leads back, and to the version again.

mod journal;
mod top;
mod shard;
mod arena;
mod branches;
mod node;

pub(crate) use branches::{Child, Head};
pub(crate) use journal::{Journal, Other, Spare, What};
pub(crate) use node::{Leaf, Name, Node, Reference};
pub(crate) use shard::{Root, SHARDS, Shard, Storage};
pub(crate) use top::{Middle, Piece, Top};
