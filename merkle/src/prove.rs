use phalanx_merkle_proof::{EMPTY, Entry, Hash, Proof, TWIG_LEAVES, TWIG_LEVEL, siblings};

use crate::{
    Error, Store,
    row::{ExtentItem, read_extent},
    twig::{TwigTree, twig_of},
};

impl Store {
    /// Proves the current value of a key under [`Store::root`], for
    /// [`verify_inclusion`](phalanx_merkle_proof::verify_inclusion). `None` if the key does not exist.
    ///
    /// About 700 bytes and an entry. If the value was written lately, the digests are in memory; otherwise its twig, 2048
    /// entries or about 100 KB, is read from the log and hashed again, about half a millisecond.
    ///
    /// # Errors
    /// [`Error::NotWritten`] if the value came with a block of more than a million entries whose write is still pending;
    /// [`Error::Corrupt`] if the log does not give what was written; [`Error::Poisoned`], or what the log reports.
    pub fn prove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.shared.check()?;
        let Some(id) = self.state.find(key) else { return Ok(None) };
        let (_, value) = self.state.entry(id);
        let written = self.state.written(id);
        let (sn, next_sn, twig) = (written.sn, self.tree.next_sn(), twig_of(written.sn));

        let read;
        let tree = match self.tree.twig_tree(twig) {
            Some(tree) => tree,
            None => {
                read = self.read_twig(twig)?;
                &read
            }
        };
        let path: Vec<Hash> = siblings(sn, next_sn)
            .filter_map(|(level, _, index)| {
                let index = index?;
                Some(if level < TWIG_LEVEL {
                    *tree.node(level, index as usize % (TWIG_LEAVES >> level))
                } else {
                    *self.tree.upper().node(usize::from(level - TWIG_LEVEL), index).unwrap_or(&EMPTY)
                })
            })
            .collect();
        let proof = Proof {
            entry: Entry { key, value, height: written.height },
            sn,
            next_sn,
            active_count: self.tree.active(),
            bitmap: self.tree.bitmap(twig),
            siblings: &path,
        };
        let mut bytes = Vec::with_capacity(1024);
        proof.encode(&mut bytes);
        Ok(Some(bytes))
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
        self.shared.log.twig(twig, &mut |body| {
            let Some((head, _)) = crate::row::extent_head(body) else { return false };
            let (mut sn, mut encodings) = (head.first_sn, Vec::new());
            read_extent(body, |item| {
                if let ExtentItem::Entry(_, encoded) = item {
                    if (first..end).contains(&sn) {
                        encodings.push(encoded);
                    }
                    sn += 1;
                }
            });
            hash.leaves(encodings.into_iter(), head.height, &mut leaves);
            leaves.len() < TWIG_LEAVES
        })?;
        let mut tree = TwigTree::new();
        tree.extend(hash, 0, &leaves);
        if leaves.len() == TWIG_LEAVES && tree.root() == self.tree.left(twig) {
            return Ok(tree);
        }
        Err(Error::Corrupt {
            path: self.shared.log.path(),
            what: format!("entries of twig {twig} do not fit its root"),
        })
    }
}
