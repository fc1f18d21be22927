//! Blobs of transactions that are on the chain: a reorganisation gives them back to the pool. A pure core, bounded in bytes.

use alloy_primitives::{B256, Bytes};
use std::collections::{HashMap, VecDeque};

/// Maximum memory of all of them, in bytes: some two epochs of blocks with a megabyte of blobs each.
const MOST_BYTES: usize = 64 << 20;

/// Encodings with blobs, as they were sent to the pool, by the hash of their transaction. The oldest leave first.
#[derive(Debug, Default)]
pub(super) struct Sidecars {
    kept: HashMap<B256, Bytes>,
    arrivals: VecDeque<B256>,
    bytes: usize,
}

impl Sidecars {
    /// Keeps the encoding of a transaction with its blobs.
    pub(super) fn keep(&mut self, hash: B256, pooled: Bytes) {
        self.bytes += pooled.len();
        match self.kept.insert(hash, pooled) {
            Some(before) => self.bytes -= before.len(),
            None => self.arrivals.push_back(hash),
        }
        while self.bytes > MOST_BYTES
            && let Some(oldest) = self.arrivals.pop_front()
        {
            self.bytes -= self.kept.remove(&oldest).map_or(0, |gone| gone.len());
        }
    }

    /// The encoding of a transaction with its blobs, if it is still here.
    pub(super) fn get(&self, hash: &B256) -> Option<&Bytes> {
        self.kept.get(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_bounded_and_the_newest_stay() {
        let mut sidecars = Sidecars::default();
        let (name, bytes) = (B256::with_last_byte, |megabytes: usize| Bytes::from(vec![0; megabytes << 20]));
        (0..40).for_each(|hash| sidecars.keep(name(hash), bytes(2)));
        assert_eq!((sidecars.bytes, sidecars.arrivals.len()), (64 << 20, 32));
        assert!(sidecars.get(&name(7)).is_none() && sidecars.get(&name(8)).is_some());
        // Once more, and one that alone is too long.
        sidecars.keep(name(8), bytes(1));
        assert_eq!((sidecars.bytes, sidecars.arrivals.len()), (63 << 20, 32));
        sidecars.keep(name(50), bytes(65));
        assert_eq!((sidecars.bytes, sidecars.arrivals.len(), sidecars.kept.len()), (0, 0, 0));
    }
}
