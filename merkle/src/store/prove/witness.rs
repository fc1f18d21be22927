//! Witnesses: the part of a state that verifying a block needs.

use std::collections::BTreeMap;

use phalanx_merkle_proof::{Change, Entry, Hash, Outline};

use super::{prover::Prover, twigs::ProvenTwigs, wanted::Wanted};
use crate::{
    store::held::{At, Held},
    tree::{Patches, TreePatch, TreeView, twig_of},
    types::{Delta, Error, Target},
};

impl Held<'_> {
    /// Witness of a delta.
    ///
    /// # Errors
    /// Errors of [`Reader`](crate::Reader).
    pub(crate) fn witness(&self, delta: &Delta) -> Result<Vec<u8>, Error> {
        self.core.shared.check()?;
        delta.check()?;
        let tree = &self.core.tree;
        match self.at {
            At::Tip => self.witness_on(TreeView::from(tree), delta, |hash| self.wanted_before(hash)),
            At::Past(depth) => {
                let back: Vec<&TreePatch> = self.core.history.iter().rev().take(depth).map(|undo| &undo.tree).collect();
                self.witness_on(TreeView::new(tree, &back[..]), delta, |hash| self.wanted_before(hash))
            }
            At::Fork(overlay) => {
                let before = |hash: &Hash| self.wanted_before_over(overlay, hash);
                self.witness_on(TreeView::new(tree, overlay), delta, before)
            }
        }
    }

    fn witness_on<'t, P: Patches<'t>>(
        &self,
        tree: TreeView<'t, P>,
        delta: &Delta,
        before: impl Fn(&Hash) -> Option<Wanted>,
    ) -> Result<Vec<u8>, Error> {
        let (params, shape) = (&self.core.params, tree.shape());
        let mut last: BTreeMap<Hash, Change<'_>> = BTreeMap::new();
        for op in delta.operations() {
            let key = match op.target() {
                Target::Key(key) => key,
                Target::At(locator) => {
                    let key = self.located(locator).ok_or(Error::StaleLocator)?;
                    self.get(key).ok_or(Error::StaleLocator)?;
                    key
                }
            };
            last.insert(params.hash.key(key), (key, op.value()));
        }
        let mut met: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for (hash, (key, value)) in &last {
            let there = self.wanted(key);
            let covering = if there.is_some() && value.is_some() { None } else { before(hash) };
            met.extend(there.into_iter().chain(covering).map(|wanted| (wanted.sn, wanted.bytes)));
        }
        // An entry may seem absent because a read failed.
        self.core.shared.check()?;
        let inconsistent = || {
            let what = format!("entries around the keys of block {:?} do not fit", self.height());
            Error::Corrupt { path: self.core.shared.log.path(), what }
        };
        let decoded = met.iter().map(|(sn, bytes)| {
            let (height, entry) = bytes.split_first_chunk().ok_or_else(inconsistent)?;
            let (entry, _) = Entry::decode(entry, u64::from_be_bytes(*height)).ok_or_else(inconsistent)?;
            Ok((*sn, entry))
        });
        let entries: Vec<(u64, Entry<'_>)> = decoded.collect::<Result<_, Error>>()?;
        let changes: Vec<Change<'_>> = last.into_values().collect();
        let outline = Outline::new(params, &shape, &entries, &changes, |twig| *tree.bitmap(twig));
        let outline = outline.map_err(|_| inconsistent())?;
        let read = self.read_twigs(&tree, outline.positions().map(twig_of), &mut ProvenTwigs::default())?;
        let entries = met.into_iter().collect();
        Ok(outline.prove(&mut Prover { hash: params.hash, tree, read, entries }))
    }
}
