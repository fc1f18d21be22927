//! Full twigs that proofs have rebuilt from the log.

use std::{collections::HashMap, sync::Arc};

use phalanx_merkle_proof::Hash;

use crate::tree::TwigTree;

/// Maximum number of twigs that are kept: 128 KiB each.
const MAX_TWIGS: usize = 64;

/// Twigs that several proofs share: each takes half a millisecond to rebuild, and an account is in the proof of each of its slots.
/// The twigs are of one store, and of any of its blocks.
#[derive(Debug, Default)]
pub struct ProvenTwigs(HashMap<u64, Arc<TwigTree>>);

impl ProvenTwigs {
    /// A twig by its number and root.
    pub(super) fn get(&self, twig: u64, root: &Hash) -> Option<&Arc<TwigTree>> {
        self.0.get(&twig).filter(|tree| tree.root() == root)
    }

    /// Keeps a twig. When there are too many, all others go.
    pub(super) fn put(&mut self, twig: u64, tree: Arc<TwigTree>) {
        if self.0.len() >= MAX_TWIGS {
            self.0.clear();
        }
        self.0.insert(twig, tree);
    }
}
