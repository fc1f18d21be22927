use crate::sync::{AtomicU32, Ordering};
use phalanx_memory::prefetch_write;

/// By node, how many predecessors are still to come, and whether one of them was poisoned.
///
/// Both live in one word, and that is what makes the protocol small. All that happens to a word is one chain of
/// read-modify-writes, so the predecessor that takes the last count also sees every poison mark set before an earlier
/// count was taken; no order between two locations is needed.
///
/// Every count is taken with Release, which publishes what the predecessor's job did. The one that reads the last count
/// reads it with Acquire, and since read-modify-writes continue the release sequences they meet, it synchronises with
/// *all* predecessors. Whoever then runs the node is this very thread, or one that got the node from its deque.
#[derive(Debug, Default)]
pub(crate) struct Countdown {
    words: Vec<AtomicU32>,
}

/// A node whose predecessors are all done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready(u32);

/// The mark, in a word and in a [`Ready`]: far above any in-degree or node number.
const POISON: u32 = 1 << 31;

impl Countdown {
    /// Starts over with the given in-degrees. The caller publishes them to the workers.
    pub(crate) fn reset(&mut self, indegrees: &[u32]) {
        self.words.truncate(indegrees.len());
        for (word, indegree) in self.words.iter().zip(indegrees) {
            word.store(*indegree, Ordering::Relaxed);
        }
        let held = self.words.len();
        self.words.extend(indegrees[held..].iter().map(|indegree| AtomicU32::new(*indegree)));
    }

    /// Asks the cache for what is known of `node`.
    #[inline]
    pub(crate) fn prefetch(&self, node: u32) {
        prefetch_write(&self.words[node as usize]);
    }

    /// Whether whoever has yet to arrive at `node` is the only one.
    #[inline]
    pub(crate) fn waits_for_one(&self, node: u32) -> bool {
        self.words[node as usize].load(Ordering::Relaxed) & !POISON == 1
    }

    /// One predecessor of `node` is done, `poisoned` if it escaped or was withdrawn itself. The last one gets the node.
    #[inline]
    pub(crate) fn arrive(&self, node: u32, poisoned: bool) -> Option<Ready> {
        let word = &self.words[node as usize];
        let mark = if poisoned { POISON } else { 0 };
        // A count of one is ours, so nobody will touch the word again: most nodes spare the locked instruction.
        let held = word.load(Ordering::Acquire);
        if held & !POISON == 1 {
            return Some(Ready(node | mark | (held & POISON)));
        }
        if poisoned {
            // Ordered before our count by being on the same word.
            word.fetch_or(POISON, Ordering::Relaxed);
        }
        let held = word.fetch_sub(1, Ordering::AcqRel);
        (held & !POISON == 1).then_some(Ready(node | (held & POISON)))
    }
}

impl Ready {
    /// A node that waits for none.
    #[inline]
    pub(crate) const fn source(node: u32) -> Self {
        Self(node)
    }

    #[inline]
    pub(crate) const fn node(self) -> u32 {
        self.0 & !POISON
    }

    /// Whether some predecessor escaped or was withdrawn.
    #[inline]
    pub(crate) const fn is_poisoned(self) -> bool {
        self.0 & POISON != 0
    }
}
