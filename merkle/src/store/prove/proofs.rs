//! Proves values, absence and ranges of keys at a reader's state.

use std::{collections::HashMap, ops::ControlFlow, sync::Arc};

use phalanx_merkle_proof::{Hash, Shape, TWIG_LEAVES, prove};

use super::{prover::Prover, twigs::ProvenTwigs, wanted::Wanted};
use crate::{
    commit::ChainBlock,
    log::{extent_head, read_extent},
    store::held::{At, Held},
    tree::{Patches, TreePatch, TreeView, TwigTree, twig_of},
    types::Error,
};

impl Held<'_> {
    /// Proves the value of a key.
    ///
    /// # Errors
    /// Errors of [`Reader`](crate::Reader).
    pub(crate) fn prove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.core.shared.check()?;
        self.check_key(key)?;
        let wanted = self.wanted(key);
        self.core.shared.check()?;
        wanted.map(|entry| self.prove_wanted(vec![entry])).transpose()
    }

    /// Proves that a key does not exist.
    ///
    /// # Errors
    /// Errors of [`Reader`](crate::Reader).
    pub(crate) fn prove_absence(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.core.shared.check()?;
        self.check_key(key)?;
        if self.get(key).is_some() {
            return Ok(None);
        }
        let before = self.wanted_before(&self.hash_of(key));
        self.core.shared.check()?;
        before.map(|entry| self.prove_wanted(vec![entry])).transpose()
    }

    /// Proves the values or the absence of many keys.
    ///
    /// # Errors
    /// Errors of [`Reader`](crate::Reader).
    pub(crate) fn prove_keys<K: AsRef<[u8]>>(&self, keys: &[K], twigs: &mut ProvenTwigs) -> Result<Vec<u8>, Error> {
        self.core.shared.check()?;
        keys.iter().try_for_each(|key| self.check_key(key.as_ref()))?;
        let wanted = |key: &[u8]| self.wanted(key).or_else(|| self.wanted_before(&self.hash_of(key)));
        self.prove_wanted_with(keys.iter().filter_map(|key| wanted(key.as_ref())).collect(), twigs)
    }

    /// Proves all keys of a range of hashes.
    ///
    /// # Errors
    /// Errors of [`Reader`](crate::Reader).
    pub(crate) fn prove_range(&self, from: &Hash, to: &Hash, limit: usize) -> Result<(Vec<u8>, Hash), Error> {
        self.core.shared.check()?;
        let mut wanted: Vec<Wanted> = self.wanted_before(from).into_iter().collect();
        let mut end = *to;
        self.each_wanted(from, &mut |entry| {
            if entry.hash > *to {
                return ControlFlow::Break(());
            }
            if entry.hash == *from {
                wanted.clear();
            }
            if wanted.len() > limit {
                end = wanted[wanted.len() - 1].hash;
                return ControlFlow::Break(());
            }
            wanted.push(entry);
            ControlFlow::Continue(())
        });
        Ok((self.prove_wanted(wanted)?, end.max(*from)))
    }

    /// Checks a key against the application's rules: the absence of a mistyped key says nothing.
    fn check_key(&self, key: &[u8]) -> Result<(), Error> {
        if (self.core.contents.is_key)(key) { Ok(()) } else { Err(Error::Key { len: key.len() }) }
    }

    pub(super) fn hash_of(&self, key: &[u8]) -> Hash {
        self.core.params.hash.key(key)
    }

    fn prove_wanted(&self, wanted: Vec<Wanted>) -> Result<Vec<u8>, Error> {
        self.prove_wanted_with(wanted, &mut ProvenTwigs::default())
    }

    fn prove_wanted_with(&self, mut wanted: Vec<Wanted>, twigs: &mut ProvenTwigs) -> Result<Vec<u8>, Error> {
        // An entry may seem absent because a read failed.
        self.core.shared.check()?;
        wanted.sort_by_key(|entry| entry.sn);
        wanted.dedup_by_key(|entry| entry.sn);
        let tree = &self.core.tree;
        match self.at {
            At::Tip => self.prove_on(TreeView::from(tree), wanted, twigs),
            At::Past(depth) => {
                let back: Vec<&TreePatch> = self.core.history.iter().rev().take(depth).map(|undo| &undo.tree).collect();
                self.prove_on(TreeView::new(tree, &back[..]), wanted, twigs)
            }
            At::Fork(overlay) => self.prove_on(TreeView::new(tree, overlay), wanted, twigs),
        }
    }

    fn prove_on<'t, P: Patches<'t>>(
        &self,
        tree: TreeView<'t, P>,
        wanted: Vec<Wanted>,
        twigs: &mut ProvenTwigs,
    ) -> Result<Vec<u8>, Error> {
        let read = self.read_twigs(&tree, wanted.iter().map(|entry| twig_of(entry.sn)), twigs)?;
        let shape: Shape = tree.shape();
        let sns: Vec<u64> = wanted.iter().map(|entry| entry.sn).collect();
        let entries = wanted.into_iter().map(|entry| (entry.sn, entry.bytes)).collect();
        Ok(prove(&shape, &sns, &mut Prover { hash: self.core.params.hash, tree, read, entries }))
    }

    /// Rebuilds those of these twigs that are not in memory, and not known from earlier proofs.
    pub(super) fn read_twigs<'t, P: Patches<'t>>(
        &self,
        tree: &TreeView<'t, P>,
        numbers: impl Iterator<Item = u64>,
        known: &mut ProvenTwigs,
    ) -> Result<HashMap<u64, Arc<TwigTree>>, Error> {
        let mut read = HashMap::new();
        for twig in numbers {
            if tree.twig_tree(twig).is_some() || read.contains_key(&twig) {
                continue;
            }
            let root = tree.left(twig);
            let found = match known.get(twig, root) {
                Some(found) => Arc::clone(found),
                None => {
                    let found = Arc::new(self.read_twig(root, twig)?);
                    known.put(twig, Arc::clone(&found));
                    found
                }
            };
            read.insert(twig, found);
        }
        Ok(read)
    }

    /// Compares a full twig with the log.
    pub(crate) fn check_twig(&self, twig: u64) -> Result<(), Error> {
        self.read_twig(TreeView::from(&self.core.tree).left(twig), twig).map(|_| ())
    }

    /// Rebuilds a full twig from the log.
    pub(crate) fn read_twig(&self, left: &Hash, twig: u64) -> Result<TwigTree, Error> {
        let core = &*self.core;
        let first = twig * TWIG_LEAVES as u64;
        let end = first + TWIG_LEAVES as u64;
        if core.written_sn() < end {
            return Err(Error::NotWritten);
        }
        let hash = core.params.hash;
        let mut leaves = Vec::with_capacity(TWIG_LEAVES);
        // The log begins behind the sentinels.
        leaves.extend(crate::tree::sentinels(&core.params).skip(first as usize).take(TWIG_LEAVES));
        let begin = core.chain.partition_point(|block| block.shape.next_sn <= first);
        for ChainBlock { id, .. } in core.chain.iter().skip(begin).take_while(|block| block.first_sn < end) {
            core.shared.log.extents(*id, Some(twig), &mut |kind, body| {
                let Some((head, _)) = extent_head(body) else { return Ok(false) };
                let (mut sn, mut encodings) = (head.first_sn, Vec::new());
                read_extent(kind, body, |item| {
                    if let Some((entry, encoded)) = item.entry() {
                        if (first..end).contains(&sn) {
                            encodings.push((encoded, entry.height.to_be_bytes()));
                        }
                        sn += 1;
                    }
                });
                hash.leaves(encodings.iter().map(|(encoded, height)| (*encoded, height)), &mut leaves);
                Ok(leaves.len() < TWIG_LEAVES)
            })?;
        }
        let mut tree = TwigTree::new();
        if leaves.len() == TWIG_LEAVES {
            tree.extend(hash, [&leaves[..]]);
            if tree.root() == left {
                return Ok(tree);
            }
        }
        let what = format!("entries of twig {twig} do not fit its root");
        Err(Error::Corrupt { path: core.shared.log.path(), what })
    }
}
