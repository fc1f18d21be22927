//! Nodes that are hashed together.

use alloy_primitives::B256;
use phalanx_hash_lanes::{Lanes, keccak256_in_lanes};

use crate::{nodes::Reference, types::Work};

/// Bytes that one permutation absorbs.
const RATE: usize = 136;

/// Encoded nodes, one after the other, and then their references.
#[derive(Debug)]
pub(crate) struct Many {
    lanes: Lanes,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    hashes: Vec<B256>,
}

impl Many {
    /// Nodes hashed together: enough that few lanes are idle, and few enough to stay in the nearest cache.
    pub(crate) const LIMIT: usize = 32;

    pub(crate) const fn new(lanes: Lanes) -> Self {
        Self { lanes, bytes: Vec::new(), ends: Vec::new(), hashes: Vec::new() }
    }

    /// Buffer to write the next node to, which [`Self::end`] ends.
    pub(crate) const fn out(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) fn end(&mut self) {
        self.ends.push(self.bytes.len());
    }

    fn nodes(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| &self.bytes[core::mem::replace(&mut start, *end)..*end])
    }

    /// Hashes all nodes and begins anew; the references are in the nodes' order.
    pub(crate) fn take(&mut self, work: &mut Work, mut each: impl FnMut(usize, Reference)) {
        let mut hashes = core::mem::take(&mut self.hashes);
        keccak256_in_lanes(self.lanes, self.nodes(), &mut hashes);
        for (at, (node, hash)) in self.nodes().zip(&hashes).enumerate() {
            work.permutations += (node.len() / RATE + 1) as u64;
            each(at, if node.len() < 32 { Reference::inlined(node) } else { Reference::hashed(*hash) });
        }
        hashes.clear();
        self.hashes = hashes;
        self.bytes.clear();
        self.ends.clear();
    }
}
