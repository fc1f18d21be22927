//! The conflicts of a wave as a graph. A planner builds it with the block, beside the execution of the block before: it
//! needs predictions and no state, and one thread builds it.

use alloy_primitives::Address;
use phalanx_access::{Access, AccessSets, KeyId};
use phalanx_memory::{BufferPool, Pooled};
use phalanx_parascheduler::{Dag, DagBuilder};

/// Conflict graph of a wave.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) dag: Pooled<Dag>,
    /// Length of the longest chain, in transactions.
    pub(crate) critical_path: usize,
    /// Id of the beneficiary's balance, if some transaction names it.
    pub(crate) beneficiary: Option<KeyId>,
    /// True if some transaction reads that balance, so that rewards are recorded one by one.
    pub(crate) observed: bool,
}

/// A graph built ahead, and the beneficiary that it was built for.
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    pub(crate) graph: Graph,
    paid: Address,
}

impl Ahead {
    pub(crate) const fn new(graph: Graph, paid: Address) -> Self {
        Self { graph, paid }
    }

    /// Returns the graph if `paid` is the beneficiary that earns the rewards.
    pub(crate) fn into_graph(self, paid: Address) -> Option<Graph> {
        (self.paid == paid).then_some(self.graph)
    }
}

/// Builds graphs, wave after wave, and keeps tables and memory.
#[derive(Debug, Default)]
pub(crate) struct GraphBuilder {
    builder: DagBuilder,
    memory: BufferPool<Dag>,
}

impl GraphBuilder {
    /// Builds the graph of transactions with these `sets`. O(accesses + keys).
    pub(crate) fn build(&mut self, sets: &AccessSets<KeyId>, n_keys: usize, beneficiary: Option<KeyId>) -> Graph {
        // The DAG orders the rewards as well; the view of a transaction remains its prediction.
        let ordered = beneficiary.and_then(|id| in_order(sets, n_keys, id));
        let mut dag = self.memory.take();
        match &ordered {
            Some((sets, n_keys)) => self.builder.build(sets, *n_keys, &mut dag),
            None => self.builder.build(sets, n_keys, &mut dag),
        }
        Graph { critical_path: dag.critical_path(), dag, beneficiary, observed: ordered.is_some() }
    }
}

/// Sets of a wave in which every transaction credits `payees` as well. O(accesses + transactions × payees).
pub(crate) fn with_shares(sets: &AccessSets<KeyId>, payees: &[KeyId]) -> AccessSets<KeyId> {
    let mut charged = AccessSets::with_capacity(sets.entries().len() + sets.len() * payees.len(), sets.len());
    for set in sets.iter() {
        for (key, access) in set {
            let access = if payees.contains(key) { access.join(Access::Credit) } else { *access };
            charged.add(*key, access);
        }
        for payee in payees.iter().filter(|payee| set.iter().all(|(key, _)| key != *payee)) {
            charged.add(*payee, Access::Credit);
        }
        charged.close();
    }
    charged
}

/// True if a transaction with this set reads the balance `id`.
pub(crate) fn looks(set: &[(KeyId, Access)], id: KeyId) -> bool {
    set.iter().any(|(key, access)| *key == id && *access != Access::Credit)
}

/// Sets of a wave with readers of the balance `id`, such that each reader comes after all transactions before it; and
/// their number of keys. `None` without readers.
///
/// Each read has a key of its own, read by the reader and credited by the transactions between the previous read and
/// it.
pub(crate) fn in_order(sets: &AccessSets<KeyId>, n_keys: usize, id: KeyId) -> Option<(AccessSets<KeyId>, usize)> {
    let looking = sets.iter().filter(|set| looks(set, id)).count();
    if looking == 0 {
        return None;
    }
    let end = n_keys + looking;
    let mut next = n_keys;
    let mut ordered = AccessSets::with_capacity(sets.entries().len() + sets.len() + looking, sets.len());
    for set in sets.iter() {
        set.iter().for_each(|(key, access)| ordered.add(*key, *access));
        if looks(set, id) {
            ordered.add(KeyId(next as u32), Access::Read);
            next += 1;
        }
        if next < end {
            ordered.add(KeyId(next as u32), Access::Credit);
        }
        ordered.close();
    }
    Some((ordered, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_parascheduler::TxIndex;

    #[test]
    fn shares_are_credits_of_all_and_a_reader_of_one_writes_it() {
        let (payee, other, second) = (KeyId(0), KeyId(1), KeyId(2));
        let mut sets = AccessSets::new();
        sets.push([(other, Access::Write)]);
        sets.push([(payee, Access::Read)]);
        sets.push([(payee, Access::Credit), (other, Access::Read)]);
        let charged = with_shares(&sets, &[payee, second]);
        let (credit, write) = (Access::Credit, Access::Write);
        assert_eq!(charged.get(0), [(other, write), (payee, credit), (second, credit)]);
        assert_eq!(charged.get(1), [(payee, write), (second, credit)]);
        assert_eq!(charged.get(2), [(payee, credit), (other, Access::Read), (second, credit)]);
        assert_eq!(with_shares(&sets, &[]), sets);
    }

    #[test]
    fn a_read_of_rewards_waits_for_all_before_and_delays_none_behind() {
        let (balance, other) = (KeyId(0), KeyId(1));
        let mut sets = AccessSets::new();
        for set in [
            vec![],
            vec![(other, Access::Write)],
            vec![(balance, Access::Credit)],
            vec![(balance, Access::Read)],
            vec![],
            vec![(other, Access::Write)],
            vec![(balance, Access::Write)],
            vec![],
            vec![(other, Access::Write)],
        ] {
            sets.push(set);
        }
        assert_eq!(in_order(&sets, 2, KeyId(7)), None);
        let (ordered, n_keys) = in_order(&sets, 2, balance).expect("two look");
        assert_eq!((ordered.len(), n_keys), (sets.len(), 4));
        let dag = Dag::build(&ordered, n_keys);
        let after = |first: u32| {
            let mut seen = vec![first];
            let mut at = 0;
            while let Some(node) = seen.get(at).copied() {
                seen.extend(
                    dag.successors(node as usize)
                        .iter()
                        .copied()
                        .filter(|next| !seen.contains(next))
                        .collect::<Vec<_>>(),
                );
                at += 1;
            }
            seen.retain(|node| *node != first && (*node as usize) < sets.len());
            seen.sort_unstable();
            seen
        };
        assert_eq!(after(0), [3, 6], "pays before both look");
        assert_eq!(after(1), [3, 5, 6, 8]);
        assert_eq!(after(2), [3, 6]);
        assert_eq!(after(3), [6], "later transactions do not wait for a reader");
        assert_eq!(after(4), [6]);
        assert_eq!(after(5), [6, 8]);
        assert!(after(6).is_empty() && after(7).is_empty() && after(8).is_empty());
        assert_eq!(dag.sources(), [0, 1, 2, 4, 7].map(TxIndex));
    }
}
