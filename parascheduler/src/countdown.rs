//! Counts predecessors down, and carries poison with the counts. Correctness lives here: a node runs after all its
//! predecessors and sees what they did.

use crate::sync::{AtomicU32, Ordering};
use phalanx_memory::prefetch_write;

/// Number of missing predecessors of each node, and whether one of the others was poisoned.
///
/// Both live in one word, which keeps the protocol small. A word changes by one chain of read-modify-writes. So the
/// predecessor that takes the last count also sees every poison mark that was set before an earlier count was taken. No order
/// between two locations is needed.
///
/// Every count is taken with Release, which publishes what the predecessor's job did. The last count is read with Acquire.
/// Since read-modify-writes continue the release sequences they meet, that read synchronises with *all* predecessors. The
/// node then runs on the same thread, or on one that got it from this thread's deque.
#[derive(Debug, Default)]
pub(crate) struct Countdown {
    words: Vec<AtomicU32>,
}

/// A node whose predecessors are all done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready(u32);

/// The poison mark, in a word and in a [`Ready`]: above any in-degree and any node number.
const POISON: u32 = 1 << 31;

impl Countdown {
    /// Begins a run with the given in-degrees. The caller publishes them to the workers.
    pub(crate) fn reset(&mut self, indegrees: &[u32]) {
        self.words.truncate(indegrees.len());
        for (word, indegree) in self.words.iter().zip(indegrees) {
            word.store(*indegree, Ordering::Relaxed);
        }
        let held = self.words.len();
        self.words.extend(indegrees[held..].iter().map(|indegree| AtomicU32::new(*indegree)));
    }

    /// Prefetches the word of `node`, to be written.
    #[inline]
    pub(crate) fn prefetch(&self, node: u32) {
        prefetch_write(&self.words[node as usize]);
    }

    /// Returns true if exactly one predecessor of `node` is missing.
    #[inline]
    pub(crate) fn awaits_one(&self, node: u32) -> bool {
        self.words[node as usize].load(Ordering::Relaxed) & !POISON == 1
    }

    /// Counts one predecessor of `node` as done, `poisoned` if it escaped or was withdrawn itself. The last one gets the node.
    #[inline]
    pub(crate) fn arrive(&self, node: u32, poisoned: bool) -> Option<Ready> {
        let word = &self.words[node as usize];
        let mark = if poisoned { POISON } else { 0 };
        // A count of one is ours, so no other thread touches the word: most nodes need no locked instruction.
        let held = word.load(Ordering::Acquire);
        if held & !POISON == 1 {
            return Some(Ready(node | mark | (held & POISON)));
        }
        if poisoned {
            // Ordered before our count, since both change the same word.
            word.fetch_or(POISON, Ordering::Relaxed);
        }
        let held = word.fetch_sub(1, Ordering::AcqRel);
        (held & !POISON == 1).then_some(Ready(node | (held & POISON)))
    }
}

impl Ready {
    /// A node without predecessors.
    #[inline]
    pub(crate) const fn source(node: u32) -> Self {
        Self(node)
    }

    #[inline]
    pub(crate) const fn node(self) -> u32 {
        self.0 & !POISON
    }

    /// Returns true if a predecessor escaped or was withdrawn.
    #[inline]
    pub(crate) const fn is_poisoned(self) -> bool {
        self.0 & POISON != 0
    }
}
