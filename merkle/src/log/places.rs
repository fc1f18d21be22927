//! Places of the blocks and twigs in a log.

use std::{collections::HashMap, fmt::Debug};

use super::record::extent_head;

/// Places of a log's blocks.
#[derive(Debug)]
pub(crate) struct Places<P> {
    blocks: HashMap<u64, Place<P>>,
}

#[derive(Debug)]
struct Place<P> {
    begin: P,
    /// Per twig that the block begins, the place of the first extent that reaches into it.
    twigs: Vec<(u64, P)>,
}

impl<P: Copy> Places<P> {
    pub(crate) fn new() -> Self {
        Self { blocks: HashMap::new() }
    }

    pub(crate) fn insert(&mut self, id: u64, begin: P, twigs: Vec<(u64, P)>) {
        self.blocks.insert(id, Place { begin, twigs });
    }

    #[cfg(feature = "rocksdb")]
    pub(crate) fn ids(&self) -> impl Iterator<Item = u64> {
        self.blocks.keys().copied()
    }

    /// Adds the twigs of a block, if it begins at `begin`.
    #[cfg(feature = "rocksdb")]
    pub(crate) fn learn(&mut self, id: u64, begin: P, twigs: &[(u64, P)])
    where
        P: PartialEq,
    {
        if let Some(place) = self.blocks.get_mut(&id).filter(|place| place.begin == begin) {
            place.twigs = twigs.to_vec();
        }
    }

    pub(crate) fn prune(&mut self, id: u64) {
        self.blocks.retain(|at, _| *at >= id);
    }

    /// Begin of a block, and the places of its twigs.
    pub(crate) fn get(&self, id: u64) -> Option<(P, &[(u64, P)])> {
        self.blocks.get(&id).map(|place| (place.begin, &place.twigs[..]))
    }

    /// Place to read a block from, or a twig in it.
    pub(crate) fn find(&self, id: u64, twig: Option<u64>) -> Option<P> {
        let Place { begin, twigs } = self.blocks.get(&id)?;
        let found = twig.and_then(|twig| twigs.binary_search_by_key(&twig, |(twig, _)| *twig).ok());
        Some(found.map_or(*begin, |at| twigs[at].1))
    }
}

/// Twig that the extent is the first to reach into.
pub(crate) fn opens_twig(body: &[u8]) -> Option<u64> {
    extent_head(body).and_then(|(head, _)| head.opens_twig())
}
