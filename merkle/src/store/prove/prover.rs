//! The source of a proof's digests and entries: a tree view, and twigs read from the log.

use std::{collections::HashMap, sync::Arc};

use phalanx_merkle_proof::{Bytes, Hash, HashFn, Source, TWIG_LEAVES, TWIG_LEVEL};

use crate::tree::{Bitmap, Patches, TreeView, TwigTree};

/// Source of digests and entries for a proof.
pub(crate) struct Prover<'s, P> {
    pub(crate) hash: HashFn,
    pub(crate) tree: TreeView<'s, P>,
    /// Trees of twigs that are not in memory.
    pub(crate) read: HashMap<u64, Arc<TwigTree>>,
    /// Bytes that follow each proven position in the proof.
    pub(crate) entries: HashMap<u64, Vec<u8>>,
}

impl<'s, P: Patches<'s>> Source for Prover<'s, P> {
    fn node(&mut self, level: u8, index: u64) -> Hash {
        if level >= TWIG_LEVEL {
            return self.tree.upper(level, index);
        }
        if level == TWIG_LEVEL - 1 {
            return *self.tree.left(index);
        }
        let (twig, width) = (index >> (TWIG_LEVEL - 1 - level), (TWIG_LEAVES >> level) as u64);
        let tree = self.tree.twig_tree(twig).or_else(|| self.read.get(&twig).map(|tree| &**tree));
        tree.expect("the twigs of proven positions were read").node(self.hash, level, (index % width) as usize)
    }

    fn bitmap(&mut self, twig: u64) -> Bitmap {
        *self.tree.bitmap(twig)
    }

    fn entry(&mut self, sn: u64, out: &mut Bytes) {
        out.extend(self.entries.get(&sn).into_iter().flatten());
    }
}
