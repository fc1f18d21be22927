use std::collections::HashMap;

use phalanx_merkle_proof::{Bytes, Entry, Hash, Source, TWIG_LEAVES, TWIG_LEVEL, prove};

use crate::{
    Error, Store,
    resident::Resident,
    row::{ExtentItem, extent_head, read_extent},
    tree::{TreePatch, TreeView},
    twig::{Bitmap, TwigTree, twig_of},
};

impl Store {
    /// Proves the current value of a key under [`Store::root`], for
    /// [`verify_inclusion`](phalanx_merkle_proof::verify_inclusion). `None` if the key does not exist.
    ///
    /// About 700 bytes and an entry. If the value was written lately, the digests are in memory; otherwise its twig, 2048
    /// entries or about 200 KB, is read from the log and hashed again, about half a millisecond.
    ///
    /// # Errors
    /// [`Error::NotWritten`] if the value came with a block of more than a million entries whose write is still pending;
    /// [`Error::Corrupt`] if the log does not give what was written; [`Error::Poisoned`], or what the log reports.
    pub fn prove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.shared.check()?;
        self.state.find(key).map(|id| self.prove_ids(&[id])).transpose()
    }

    /// Proves that a key does not exist, for [`verify_exclusion`](phalanx_merkle_proof::verify_exclusion). `None` if it
    /// exists.
    ///
    /// # Errors
    /// Those of [`Self::prove`].
    pub fn prove_absence(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.shared.check()?;
        if self.state.find(key).is_some() {
            return Ok(None);
        }
        let before = self.state.before(&self.params().hash.key(key));
        before.map(|id| self.prove_ids(&[id])).transpose()
    }

    /// Proves values or absence of many keys at once, for [`verify_keys`](phalanx_merkle_proof::verify_keys): what their
    /// paths share is in the proof once.
    ///
    /// # Errors
    /// Those of [`Self::prove`].
    pub fn prove_keys<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<u8>, Error> {
        self.shared.check()?;
        let hash = self.params().hash;
        let id = |key: &[u8]| self.state.find(key).or_else(|| self.state.before(&hash.key(key)));
        let ids: Vec<u32> = keys.iter().filter_map(|key| id(key.as_ref())).collect();
        self.prove_ids(&ids)
    }

    /// Proves all keys whose hashes lie from `from` on up to `to`, but not more than `limit` of them, for
    /// [`verify_range`](phalanx_merkle_proof::verify_range); returns the proof and the hash up to which it is complete.
    ///
    /// # Errors
    /// Those of [`Self::prove`].
    pub fn prove_range(&self, from: &Hash, to: &Hash, limit: usize) -> Result<(Vec<u8>, Hash), Error> {
        self.shared.check()?;
        let hash_of = |id: u32| &self.state.links(id).hash;
        let mut ids: Vec<u32> = Vec::new();
        let mut inside = self.state.ring_from(from).take_while(|id| hash_of(*id) <= to).peekable();
        if inside.peek().is_none_or(|id| hash_of(*id) != from) {
            ids.extend(self.state.before(from));
        }
        ids.extend(inside.by_ref().take(limit));
        let end = match (inside.next(), ids.last()) {
            (Some(_), Some(last)) => *hash_of(*last),
            _ => *to,
        };
        Ok((self.prove_ids(&ids)?, end))
    }

    fn prove_ids(&self, ids: &[u32]) -> Result<Vec<u8>, Error> {
        let mut sns: Vec<u64> = ids.iter().map(|id| self.state.written(*id).sn).collect();
        sns.sort_unstable();
        sns.dedup();
        let tree = TreeView::from(&self.tree);
        let mut read = HashMap::new();
        for twig in sns.iter().map(|sn| twig_of(*sn)) {
            if tree.twig_tree(twig).is_none() && !read.contains_key(&twig) {
                read.insert(twig, self.read_twig(twig)?);
            }
        }
        let shape = tree.shape();
        Ok(prove(&shape, &sns, &mut Prover { state: &self.state, tree, read }))
    }

    /// Rebuilds a full twig from the log.
    fn read_twig(&self, twig: u64) -> Result<TwigTree, Error> {
        let first = twig * TWIG_LEAVES as u64;
        let end = first + TWIG_LEAVES as u64;
        if self.shared.written_sn() < end {
            return Err(Error::NotWritten);
        }
        let hash = self.params().hash;
        let mut leaves = Vec::with_capacity(TWIG_LEAVES);
        // The log begins after the sentinels.
        leaves.extend(crate::replay::sentinels(self.params()).skip(first as usize).take(TWIG_LEAVES));
        let begin = self.chain.partition_point(|block| block.shape.next_sn <= first);
        for block in self.chain[begin..].iter().take_while(|block| block.first_sn < end) {
            self.shared.log.extents(block.id, Some(twig), &mut |kind, body| {
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
            if tree.root() == TreeView::from(&self.tree).left(twig) {
                return Ok(tree);
            }
        }
        Err(Error::Corrupt {
            path: self.shared.log.path(),
            what: format!("entries of twig {twig} do not fit its root"),
        })
    }
}

/// Answers what a proof asks for.
struct Prover<'s> {
    state: &'s Resident,
    tree: TreeView<'s, TreePatch>,
    /// Trees of twigs that are not in memory.
    read: HashMap<u64, TwigTree>,
}

impl Source for Prover<'_> {
    fn node(&mut self, level: u8, index: u64) -> Hash {
        if level >= TWIG_LEVEL {
            return self.tree.upper(level, index);
        }
        let (twig, width) = (index >> (TWIG_LEVEL - 1 - level), (TWIG_LEAVES >> level) as u64);
        let tree = self.tree.twig_tree(twig).or_else(|| self.read.get(&twig));
        *tree.expect("the twigs of proven positions were read").node(level, (index % width) as usize)
    }

    fn bitmap(&mut self, twig: u64) -> Bitmap {
        *self.tree.bitmap(twig)
    }

    fn entry(&mut self, sn: u64, out: &mut Bytes) {
        let owner = self.state.owner(sn).expect("a proven position has an owner");
        let entry: Entry<'_> = self.state.committed(owner);
        out.extend_from_slice(&entry.height.to_be_bytes());
        entry.encode(out);
    }
}
