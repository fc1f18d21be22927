//! The trie with its versions: updates, roots, proofs.

mod prove;
mod trie;
mod view;
mod witness;

pub use prove::{AccountProof, SlotProof};
pub use trie::{Config, Trie, Updated, Version};
