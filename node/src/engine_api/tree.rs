//! Payloads beside the chain, and those known to be invalid. A pure core: bounded in number and bytes, without I/O.

use super::proposed::Proposed;
use alloy_primitives::B256;
use phalanx::api::ExecId;
use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    time::Duration,
};

/// Maximum number of payloads: sixteen epochs with a fork each, and a client that is behind by as much.
const MOST_HELD: usize = 1_024;

/// Maximum memory of the payloads, in bytes.
const MOST_BYTES: usize = 512 << 20;

/// Maximum number of invalid payloads that are remembered. A forgotten one is found to be invalid once more.
const MOST_INVALID: usize = 1_024;

/// A payload that is invalid for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Invalid {
    /// The newest valid ancestor, if it is known.
    pub(super) latest_valid: Option<B256>,
    pub(super) why: String,
}

/// A payload that is not on the chain.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) block: Proposed,
    /// Name of the execution, once the payload was found to be valid.
    pub(super) exec: Option<ExecId>,
    /// Time that its execution took before it was chosen.
    pub(super) spent: Duration,
    arrival: u64,
}

/// Payloads beside the chain, by hash.
#[derive(Debug)]
pub(super) struct Tree {
    held: HashMap<B256, Held>,
    /// Payloads in the order of their arrival.
    arrivals: BTreeMap<u64, B256>,
    next: u64,
    bytes: usize,
    invalid: HashMap<B256, Invalid>,
    /// Invalid payloads in the order of their verdicts.
    verdicts: VecDeque<B256>,
    /// Payloads that have left since [`Self::take_gone`].
    gone: Vec<B256>,
    most: (usize, usize),
}

impl Default for Tree {
    fn default() -> Self {
        Self::bounded(MOST_HELD, MOST_BYTES)
    }
}

impl Tree {
    fn bounded(most: usize, bytes: usize) -> Self {
        Self {
            held: HashMap::new(),
            arrivals: BTreeMap::new(),
            next: 0,
            bytes: 0,
            invalid: HashMap::new(),
            verdicts: VecDeque::new(),
            gone: Vec::new(),
            most: (most, bytes),
        }
    }

    /// Adds a payload. One that is there already stays as it is. Until [`Self::trim`] there may be too many, so that an order keeps
    /// what it works with.
    pub(super) fn hold(&mut self, block: Proposed, exec: Option<ExecId>) {
        if let Some(held) = self.held.get_mut(&block.hash) {
            held.exec = held.exec.or(exec);
            return;
        }
        let (hash, arrival) = (block.hash, self.next);
        self.next += 1;
        self.bytes = self.bytes.saturating_add(block.bytes());
        self.arrivals.insert(arrival, hash);
        self.held.insert(hash, Held { block, exec, spent: Duration::ZERO, arrival });
    }

    /// Removes the oldest payloads where there are too many. The newest stays.
    pub(super) fn trim(&mut self) {
        let (most, bytes) = self.most;
        while self.held.len() > 1 && (self.held.len() > most || self.bytes > bytes) {
            let Some((_, oldest)) = self.arrivals.first_key_value() else { return };
            let oldest = *oldest;
            self.remove(&oldest);
        }
    }

    /// Records that a held payload is valid.
    pub(super) fn found_valid(&mut self, hash: &B256, exec: ExecId) {
        if let Some(held) = self.held.get_mut(hash) {
            held.exec = Some(exec);
        }
    }

    /// Records the time of an execution before the payload was chosen.
    pub(super) fn spent(&mut self, hash: &B256, time: Duration) {
        if let Some(held) = self.held.get_mut(hash) {
            held.spent += time;
        }
    }

    /// Executions of the valid payloads.
    pub(super) fn executed(&self) -> Vec<ExecId> {
        self.held.values().filter_map(|held| held.exec).collect()
    }

    pub(super) fn get(&self, hash: &B256) -> Option<&Held> {
        self.held.get(hash)
    }

    /// True for a held payload that was found to be valid.
    pub(super) fn is_valid(&self, hash: &B256) -> bool {
        self.held.get(hash).is_some_and(|held| held.exec.is_some())
    }

    /// Removes a payload: it is on the chain, or of no use.
    pub(super) fn remove(&mut self, hash: &B256) {
        if let Some(held) = self.held.remove(hash) {
            self.arrivals.remove(&held.arrival);
            self.bytes = self.bytes.saturating_sub(held.block.bytes());
            self.gone.push(*hash);
        }
    }

    /// Payloads that have left since the last call, and have not come back.
    pub(super) fn take_gone(&mut self) -> Vec<B256> {
        let mut gone = core::mem::take(&mut self.gone);
        gone.retain(|hash| !self.held.contains_key(hash));
        gone
    }

    /// Removes the payloads up to a height: they can never be chosen.
    pub(super) fn remove_up_to(&mut self, height: u64) {
        let old = self.held.values().filter(|held| held.block.number() <= height).map(|held| held.block.hash);
        old.collect::<Vec<_>>().iter().for_each(|hash| self.remove(hash));
    }

    /// Payloads from the first behind the chain up to `hash`, oldest first, and the parent of the first. That is `hash` itself if
    /// it is not held.
    pub(super) fn path(&self, hash: B256) -> (Vec<B256>, B256) {
        let (mut path, mut root) = (Vec::new(), hash);
        while let Some(held) = self.held.get(&root) {
            path.push(root);
            root = held.block.parent;
        }
        path.reverse();
        (path, root)
    }

    pub(super) fn invalid(&self, hash: &B256) -> Option<&Invalid> {
        self.invalid.get(hash)
    }

    /// Records that a payload is invalid, and with it all that descend from it.
    pub(super) fn condemn(&mut self, hash: B256, invalid: &Invalid) {
        let mut lost = HashSet::from([hash]);
        let mut rest: Vec<_> = self.held.values().map(|held| &held.block).collect();
        rest.sort_unstable_by_key(|block| block.number());
        for block in rest {
            if lost.contains(&block.parent) {
                lost.insert(block.hash);
            }
        }
        for hash in lost {
            self.remove(&hash);
            if self.invalid.insert(hash, invalid.clone()).is_none() {
                self.verdicts.push_back(hash);
            }
        }
        while self.verdicts.len() > MOST_INVALID
            && let Some(oldest) = self.verdicts.pop_front()
        {
            self.invalid.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::Header;
    use alloy_primitives::Bytes;

    fn block(name: u64, parent: u64, number: u64, bytes: usize) -> Proposed {
        let hash = |name: u64| B256::from(alloy_primitives::U256::from(name));
        let header = Header { parent_hash: hash(parent), number, ..Header::default() };
        Proposed::new(hash(name), &header, vec![Bytes::from(vec![0; bytes])], Vec::new())
    }

    fn name(name: u64) -> B256 {
        B256::from(alloy_primitives::U256::from(name))
    }

    #[test]
    fn paths_lead_to_the_first_unknown_ancestor() {
        let mut tree = Tree::default();
        for (of, parent) in [(3, 2), (2, 1), (5, 4)] {
            tree.hold(block(of, parent, of, 1), None);
        }
        assert_eq!(tree.path(name(3)), (vec![name(2), name(3)], name(1)));
        assert_eq!(tree.path(name(5)), (vec![name(5)], name(4)));
        assert_eq!(tree.path(name(9)), (vec![], name(9)));
        tree.hold(block(3, 2, 3, 1), Some(ExecId(name(7))));
        assert_eq!(tree.get(&name(3)).expect("held").exec, Some(ExecId(name(7))), "a verdict is taken over");
        tree.hold(block(3, 2, 3, 1), None);
        assert_eq!(tree.get(&name(3)).expect("held").exec, Some(ExecId(name(7))), "and stays");
        assert!(tree.take_gone().is_empty());
        tree.remove_up_to(2);
        assert_eq!(tree.path(name(3)), (vec![name(3)], name(2)));
        tree.remove(&name(5));
        tree.hold(block(5, 4, 5, 1), None);
        assert_eq!(tree.take_gone(), [name(2)], "one is back");
        assert!(tree.take_gone().is_empty());
    }

    #[test]
    fn number_and_bytes_are_bounded_and_the_newest_stay() {
        let mut tree = Tree::bounded(3, 1_000);
        (1..=5).for_each(|of| tree.hold(block(of, of - 1, of, 10), None));
        assert_eq!(tree.path(name(5)).0, [1, 2, 3, 4, 5].map(name), "an order keeps what it works with");
        tree.trim();
        assert_eq!(tree.path(name(5)).0, [3, 4, 5].map(name));
        tree.hold(block(6, 5, 6, 960), None);
        tree.trim();
        assert_eq!(tree.path(name(6)).0, [name(6)], "its bytes leave no room for more than one");
        tree.hold(block(7, 6, 7, 5_000), None);
        tree.trim();
        assert_eq!(tree.path(name(7)).0, [name(7)], "the newest stays, however long it is");
        tree.remove(&name(7));
        assert_eq!((tree.bytes, tree.arrivals.len(), tree.held.len()), (0, 0, 0));
        for of in 0..3 * MOST_INVALID as u64 {
            tree.condemn(name(of), &Invalid { latest_valid: None, why: String::new() });
        }
        assert_eq!((tree.invalid.len(), tree.verdicts.len()), (MOST_INVALID, MOST_INVALID));
        assert!(tree.invalid(&name(0)).is_none() && tree.invalid(&name(3 * MOST_INVALID as u64 - 1)).is_some());
    }

    #[test]
    fn descendants_of_an_invalid_payload_are_invalid() {
        let mut tree = Tree::default();
        for (of, parent, number) in [(4, 3, 4), (3, 2, 3), (2, 1, 2), (13, 2, 3), (23, 22, 3)] {
            tree.hold(block(of, parent, number, 1), None);
        }
        let invalid = Invalid { latest_valid: Some(name(2)), why: "a rule".into() };
        tree.condemn(name(3), &invalid);
        assert_eq!([3, 4].map(|of| tree.invalid(&name(of)).cloned()), [Some(invalid.clone()), Some(invalid)]);
        assert!([2, 13, 23].iter().all(|of| tree.invalid(&name(*of)).is_none() && tree.get(&name(*of)).is_some()));
        assert!(tree.get(&name(4)).is_none());
    }
}
