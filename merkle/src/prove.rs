use std::collections::{BTreeMap, HashMap};

use phalanx_merkle_proof::{Bytes, Entry, Hash, Shape, Source, TWIG_LEAVES, TWIG_LEVEL, prove};

use crate::{
    Error, Reader,
    core::ChainBlock,
    ground::Ground,
    overlay::Over,
    reader::At,
    row::{ExtentItem, extent_head, read_extent},
    tree::{Patch, TreePatch, TreeView},
    twig::{Bitmap, TwigTree, twig_of},
};

/// An entry of the state that a proof needs: where it is, and what follows its position in a proof.
pub(crate) struct Wanted {
    pub(crate) sn: u64,
    hash: Hash,
    pub(crate) bytes: Vec<u8>,
}

impl Wanted {
    fn new(sn: u64, hash: Hash, entry: &Entry<'_>) -> Self {
        let mut bytes = entry.height.to_be_bytes().to_vec();
        entry.encode(&mut bytes);
        Self { sn, hash, bytes }
    }
}

impl Reader<'_> {
    /// Proves the value of a key under [`Self::root`], for [`verify_inclusion`](phalanx_merkle_proof::verify_inclusion).
    /// `None` if the key does not exist.
    ///
    /// About 700 bytes and an entry. If the value was written lately, the digests are in memory; otherwise its twig, 2048
    /// entries or about 200 KB, is read from the log and hashed again, about half a millisecond.
    ///
    /// # Errors
    /// [`Error::NotWritten`] if the value came with a block of more than a million entries whose write is still pending;
    /// [`Error::Corrupt`] if the log does not give what was written; [`Error::Poisoned`], or what the log reports.
    pub fn prove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.core.shared.check()?;
        self.wanted(key).map(|entry| self.prove_wanted(vec![entry])).transpose()
    }

    /// Proves that a key does not exist, for [`verify_exclusion`](phalanx_merkle_proof::verify_exclusion). `None` if it
    /// exists.
    ///
    /// # Errors
    /// Those of [`Self::prove`].
    pub fn prove_absence(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.core.shared.check()?;
        if self.get(key).is_some() {
            return Ok(None);
        }
        self.wanted_before(&self.hash_of(key)).map(|entry| self.prove_wanted(vec![entry])).transpose()
    }

    /// Proves values or absence of many keys at once, for [`verify_keys`](phalanx_merkle_proof::verify_keys): what their
    /// paths share is in the proof once.
    ///
    /// # Errors
    /// Those of [`Self::prove`].
    pub fn prove_keys<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<u8>, Error> {
        self.core.shared.check()?;
        let wanted = |key: &[u8]| self.wanted(key).or_else(|| self.wanted_before(&self.hash_of(key)));
        self.prove_wanted(keys.iter().filter_map(|key| wanted(key.as_ref())).collect())
    }

    /// Proves all keys whose hashes lie from `from` on up to `to`, but about `limit` of them at most, for
    /// [`verify_range`](phalanx_merkle_proof::verify_range); returns the proof and the hash up to which it is complete.
    ///
    /// # Errors
    /// Those of [`Self::prove`].
    pub fn prove_range(&self, from: &Hash, to: &Hash, limit: usize) -> Result<(Vec<u8>, Hash), Error> {
        self.core.shared.check()?;
        let mut wanted: Vec<Wanted> = self.wanted_before(from).into_iter().collect();
        let mut end = *to;
        for entry in self.wanted_from(from) {
            if entry.hash > *to {
                break;
            }
            if entry.hash == *from {
                wanted.clear();
            }
            if wanted.len() > limit {
                end = wanted[wanted.len() - 1].hash;
                break;
            }
            wanted.push(entry);
        }
        Ok((self.prove_wanted(wanted)?, end.max(*from)))
    }

    fn hash_of(&self, key: &[u8]) -> Hash {
        self.core.params.hash.key(key)
    }

    /// The entry of a key.
    pub(crate) fn wanted(&self, key: &[u8]) -> Option<Wanted> {
        match self.at {
            At::Tip => self.core.state.find(key).map(|id| wanted(&self.core.state, id)),
            At::Past(depth) => self
                .core
                .find_past(key, depth)
                .map(|was| Wanted::new(was.written.sn, self.hash_of(key), &was.entry(false, key))),
            At::Branch(overlay) => {
                let over = Over { state: &self.core.state, overlay };
                over.find(key).map(|id| wanted(&over, id))
            }
        }
    }

    /// The last entry before a hash in the ring.
    pub(crate) fn wanted_before(&self, hash: &Hash) -> Option<Wanted> {
        match self.at {
            At::Tip => self.core.state.before(hash).map(|id| wanted(&self.core.state, id)),
            At::Past(_) => self.ring_past().range(..*hash).next_back().and_then(|(_, name)| self.named(name)),
            At::Branch(overlay) => {
                let above = overlay.above(self.core.tip_id(), &self.core.state);
                let over = Over { state: &self.core.state, overlay: &above };
                over.before(hash).map(|id| wanted(&over, id))
            }
        }
    }

    /// The entries from a hash on in the order of the ring.
    fn wanted_from<'r>(&'r self, from: &'r Hash) -> Box<dyn Iterator<Item = Wanted> + 'r> {
        let state = &self.core.state;
        match self.at {
            At::Tip => Box::new(state.ring_from(from).map(|id| wanted(state, id))),
            At::Past(_) => {
                let names: Vec<Name> = self.ring_past().range(*from..).map(|(_, name)| name.clone()).collect();
                Box::new(names.into_iter().filter_map(|name| self.named(&name)))
            }
            At::Branch(overlay) => {
                let above = overlay.above(self.core.tip_id(), state);
                let over = Over { state, overlay: &above };
                let found: Vec<Wanted> = over.ring_from(from).into_iter().map(|id| wanted(&over, id)).collect();
                Box::new(found.into_iter())
            }
        }
    }

    /// Everything that may have been in the ring of an earlier block. O(keys): absence long ago is seldom asked for.
    fn ring_past(&self) -> BTreeMap<Hash, Name> {
        let At::Past(depth) = self.at else { return BTreeMap::new() };
        let state = &self.core.state;
        let name = |id: u32| {
            let key = state.entry(id).0;
            if state.is_sentinel(id) { Name::Sentinel(id) } else { Name::Key(key.into()) }
        };
        let now = state.ring_from(&[0; 32]).map(|id| (state.links(id).hash, name(id)));
        let gone = self.core.history.iter().rev().take(depth).flat_map(|undo| undo.deleted());
        let all = now.chain(gone.map(|gone| (gone.links.hash, Name::Key(gone.key.clone()))));
        all.filter(|(_, name)| match name {
            Name::Sentinel(_) => true,
            Name::Key(key) => self.core.find_past(key, depth).is_some(),
        })
        .collect()
    }

    fn named(&self, name: &Name) -> Option<Wanted> {
        let At::Past(depth) = self.at else { return None };
        match name {
            Name::Key(key) => self.wanted(key),
            Name::Sentinel(id) => self.core.sentinel_past(*id, depth).map(|was| {
                let key = self.core.state.entry(*id).0;
                Wanted::new(was.written.sn, self.core.state.links(*id).hash, &was.entry(true, key))
            }),
        }
    }

    fn prove_wanted(&self, mut wanted: Vec<Wanted>) -> Result<Vec<u8>, Error> {
        wanted.sort_by_key(|entry| entry.sn);
        wanted.dedup_by_key(|entry| entry.sn);
        let tree = &self.core.tree;
        match self.at {
            At::Tip => self.prove_on(TreeView::from(tree), wanted),
            At::Past(depth) => {
                let back: Vec<&TreePatch> = self.core.history.iter().rev().take(depth).map(|undo| &undo.tree).collect();
                self.prove_on(TreeView::new(tree, &back), wanted)
            }
            At::Branch(overlay) => self.prove_on(TreeView::new(tree, &overlay.layers), wanted),
        }
    }

    fn prove_on<P: Patch>(&self, tree: TreeView<'_, P>, wanted: Vec<Wanted>) -> Result<Vec<u8>, Error> {
        let mut read = HashMap::new();
        for twig in wanted.iter().map(|entry| twig_of(entry.sn)) {
            if tree.twig_tree(twig).is_none() && !read.contains_key(&twig) {
                read.insert(twig, self.read_twig(tree.left(twig), twig)?);
            }
        }
        let shape: Shape = tree.shape();
        let sns: Vec<u64> = wanted.iter().map(|entry| entry.sn).collect();
        let entries = wanted.into_iter().map(|entry| (entry.sn, entry.bytes)).collect();
        Ok(prove(&shape, &sns, &mut Prover { tree, read, entries }))
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
        // The log begins after the sentinels.
        leaves.extend(crate::replay::sentinels(&core.params).skip(first as usize).take(TWIG_LEAVES));
        let begin = core.chain.partition_point(|block| block.shape.next_sn <= first);
        for ChainBlock { id, .. } in core.chain.iter().skip(begin).take_while(|block| block.first_sn < end) {
            core.shared.log.extents(*id, Some(twig), &mut |kind, body| {
                let Some((head, _)) = extent_head(body) else { return Ok(false) };
                let (mut sn, mut encodings) = (head.first_sn, Vec::new());
                read_extent(kind, body, |item| {
                    if let ExtentItem::Entry(entry, encoded) | ExtentItem::Moved(_, entry, encoded) = item {
                        if (first..end).contains(&sn) {
                            encodings.push((encoded, entry.height));
                        }
                        sn += 1;
                    }
                });
                hash.leaves(encodings.into_iter(), &mut leaves);
                Ok(leaves.len() < TWIG_LEAVES)
            })?;
        }
        let mut tree = TwigTree::new();
        if leaves.len() == TWIG_LEAVES {
            tree.extend(hash, 0, &leaves);
            if tree.root() == left {
                return Ok(tree);
            }
        }
        let what = format!("entries of twig {twig} do not fit its root");
        Err(Error::Corrupt { path: core.shared.log.path(), what })
    }
}

/// What stands in the ring.
#[derive(Clone)]
enum Name {
    Key(Box<[u8]>),
    Sentinel(u32),
}

pub(crate) fn wanted(state: &impl Ground, id: u32) -> Wanted {
    Wanted::new(state.written(id).sn, state.links(id).hash, &state.committed(id))
}

/// Answers what a proof asks for.
pub(crate) struct Prover<'s, P> {
    pub(crate) tree: TreeView<'s, P>,
    /// Trees of twigs that are not in memory.
    pub(crate) read: HashMap<u64, TwigTree>,
    /// What follows each proven position.
    pub(crate) entries: HashMap<u64, Vec<u8>>,
}

impl<P: Patch> Source for Prover<'_, P> {
    fn node(&mut self, level: u8, index: u64) -> Hash {
        if level >= TWIG_LEVEL {
            return self.tree.upper(level, index);
        }
        if level == TWIG_LEVEL - 1 {
            return *self.tree.left(index);
        }
        let (twig, width) = (index >> (TWIG_LEVEL - 1 - level), (TWIG_LEAVES >> level) as u64);
        let tree = self.tree.twig_tree(twig).or_else(|| self.read.get(&twig));
        *tree.expect("the twigs of proven positions were read").node(level, (index % width) as usize)
    }

    fn bitmap(&mut self, twig: u64) -> Bitmap {
        *self.tree.bitmap(twig)
    }

    fn entry(&mut self, sn: u64, out: &mut Bytes) {
        out.extend(self.entries.get(&sn).into_iter().flatten());
    }
}
