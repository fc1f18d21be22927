//! The conflict graph of a block, in compressed form. `builder.rs` makes one.

use core::ops::Range;
use phalanx_memory::{Reuse, prefetch};

/// Position of a transaction in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct TxIndex(pub u32);

impl TxIndex {
    /// The position as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Conflict graph of a block: per key, every group of commuting accesses waits for the group before it.
///
/// Nodes `0..len()` are transactions in block order, nodes `len()..nodes()` are joins. A join stands between a group of
/// several readers (or credits) and a following group of the other kind. It runs nothing. It keeps the number of edges linear:
/// otherwise every reader would need an edge from every credit.
///
/// # Invariants
/// * Two transactions are connected by a path exactly when a chain of conflicts in block order connects them.
/// * An edge between transactions leads from the lower to the higher position, so block order is a topological order.
/// * All predecessors and successors of a join are transactions, it has at least two predecessors, all of which come
///   before its first successor, and joins are numbered by that first successor.
/// * No edge appears twice; there are at most two for each access.
#[derive(Clone, Debug, Default)]
pub struct Dag {
    /// Successors of node `i` are `succ[spans[i].begin..spans[i + 1].begin]`. Empty in a default DAG.
    pub(crate) spans: Vec<Span>,
    pub(crate) succ: Vec<u32>,
    pub(crate) indegree: Vec<u32>,
    pub(crate) sources: Vec<TxIndex>,
    /// True if the order of the sources matters.
    pub(crate) ranked: bool,
    pub(crate) transactions: usize,
}

/// Begin of a node's successors, and the first of them beside it. So a walk along a chain meets one cache line per node, and
/// not two that wait for each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) begin: u32,
    /// The first successor, or [`NONE`].
    pub(crate) first: u32,
}

/// Number that stands for no node.
pub(crate) const NONE: u32 = u32::MAX;

impl Dag {
    /// Number of transactions that no block may have: indices fit the packing of what a run keeps of them.
    pub const MAX_TRANSACTIONS: usize = 1 << 28;

    /// Graph of `transactions` transactions none of which waits for another: all may run at once.
    ///
    /// # Panics
    /// For [`Self::MAX_TRANSACTIONS`] or more.
    pub fn independent(transactions: usize) -> Self {
        assert!(transactions < Self::MAX_TRANSACTIONS, "fewer than 2^28 transactions");
        Self {
            spans: vec![Span { begin: 0, first: NONE }; transactions + 1],
            succ: Vec::new(),
            indegree: vec![0; transactions],
            sources: (0..transactions as u32).map(TxIndex).collect(),
            ranked: false,
            transactions,
        }
    }

    /// Empties the graph and keeps its memory.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.succ.clear();
        self.indegree.clear();
        self.sources.clear();
        self.ranked = false;
        self.transactions = 0;
    }

    /// Number of transactions.
    #[inline]
    pub const fn len(&self) -> usize {
        self.transactions
    }

    /// Returns true if the block has no transaction.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.transactions == 0
    }

    /// Number of nodes: transactions and joins.
    #[inline]
    pub const fn nodes(&self) -> usize {
        self.indegree.len()
    }

    /// Number of joins.
    #[inline]
    pub const fn joins(&self) -> usize {
        self.indegree.len() - self.transactions
    }

    /// Number of edges, including edges to and from joins.
    #[inline]
    pub const fn edges(&self) -> usize {
        self.succ.len()
    }

    /// Nodes that wait for `node`.
    ///
    /// # Panics
    /// If there is no such node.
    #[inline]
    pub fn successors(&self, node: usize) -> &[u32] {
        let span: Range<usize> = self.spans[node].begin as usize..self.spans[node + 1].begin as usize;
        &self.succ[span]
    }

    /// First successor of `tx`, if that is a transaction and not a join.
    #[inline]
    pub(crate) fn next(&self, tx: TxIndex) -> Option<TxIndex> {
        let first = self.spans[tx.index()].first;
        // `NONE` is no transaction's number.
        (!self.is_join(first)).then_some(TxIndex(first))
    }

    /// Prefetches the begin of `node`'s successors, if there is such a node: [`Self::next`] reads no more.
    #[inline]
    pub(crate) fn prefetch(&self, node: usize) {
        self.spans.get(node).into_iter().for_each(prefetch);
    }

    /// Prefetches the successors of `node`, after [`Self::prefetch`] has arrived.
    #[inline]
    pub(crate) fn prefetch_successors(&self, node: usize) {
        self.succ.get(self.spans[node].begin as usize).into_iter().for_each(prefetch);
    }

    /// Number of predecessors, by node.
    #[inline]
    pub fn indegrees(&self) -> &[u32] {
        &self.indegree
    }

    /// Transactions without predecessors, in block order unless [`Self::begin_with_heaviest`] was called.
    #[inline]
    pub fn sources(&self) -> &[TxIndex] {
        &self.sources
    }

    /// Returns true if `node` is a join.
    #[inline]
    pub(crate) const fn is_join(&self, node: u32) -> bool {
        node as usize >= self.transactions
    }

    /// Length of the longest chain of dependent transactions, in transactions; zero for an empty block. No number of workers
    /// finishes in fewer steps. O(nodes + edges).
    pub fn critical_path(&self) -> usize {
        self.tails(|_| 1).into_iter().max().unwrap_or(0) as usize
    }

    /// Weight of the heaviest chain that begins with each node, saturating. Joins weigh nothing. The maximum is the least that
    /// any number of workers needs. O(nodes + edges).
    pub fn tails(&self, weight: impl Fn(TxIndex) -> u64) -> Vec<u64> {
        // In reverse topological order: transactions by position, each join just after its first successor.
        let mut tails = vec![0u64; self.nodes()];
        let heaviest = |tails: &[u64], node: usize| {
            self.successors(node).iter().map(|next| tails[*next as usize]).max().unwrap_or(0)
        };
        let mut join = self.nodes();
        for tx in (0..self.transactions).rev() {
            tails[tx] = heaviest(&tails, tx).saturating_add(weight(TxIndex(tx as u32)));
            while join > self.transactions && self.successors(join - 1).first() == Some(&(tx as u32)) {
                join -= 1;
                tails[join] = heaviest(&tails, join);
            }
        }
        tails
    }

    /// Ranks the sources: workers begin with the heaviest chains. A long chain that begins late ends late, with all workers but
    /// one idle. `tails` comes from [`Self::tails`]. O(sources · log sources).
    pub fn begin_with_heaviest(&mut self, tails: &[u64]) {
        self.sources.sort_by_key(|tx| core::cmp::Reverse(tails[tx.index()]));
        self.ranked = true;
    }

    /// Transaction-level parallelism: transactions divided by [`Self::critical_path`]; zero for an empty block. FAFO's measure
    /// divides by frames instead.
    pub fn tlp(&self) -> f64 {
        match self.critical_path() {
            0 => 0.0,
            path => self.transactions as f64 / path as f64,
        }
    }
}

impl Reuse for Dag {
    fn clear(&mut self) {
        self.clear();
    }

    fn capacity(&self) -> usize {
        self.succ.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_access::{
        Access::{self, Credit, Read, Write},
        AccessSets, KeyId,
    };

    fn one_key(kinds: &[Access]) -> Dag {
        let mut sets = AccessSets::new();
        for kind in kinds {
            sets.push([(KeyId(0), *kind)]);
        }
        Dag::build(&sets, 1)
    }

    #[test]
    fn the_critical_path_of_an_empty_block_is_zero() {
        for dag in [Dag::default(), one_key(&[])] {
            assert!(dag.is_empty());
            assert_eq!((dag.nodes(), dag.edges(), dag.critical_path()), (0, 0, 0));
            assert_eq!(dag.tlp(), 0.0);
        }
    }

    #[test]
    fn independent_transactions_are_those_without_accesses() {
        for transactions in [0, 1, 5] {
            let mut sets = AccessSets::new();
            (0..transactions).for_each(|_| sets.push([]));
            let (direct, built) = (Dag::independent(transactions), Dag::build(&sets, 1));
            assert_eq!(direct.sources(), built.sources());
            assert_eq!(direct.indegrees(), built.indegrees());
            assert_eq!((direct.len(), direct.edges(), direct.joins()), (transactions, 0, 0));
            assert!(
                (0..transactions)
                    .all(|tx| direct.successors(tx).is_empty() && direct.next(TxIndex(tx as u32)).is_none())
            );
        }
    }

    #[test]
    fn writes_are_ordered_and_commuting_accesses_are_not() {
        let chain = one_key(&[Write; 5]);
        assert_eq!((chain.edges(), chain.joins(), chain.critical_path()), (4, 0, 5));
        for kind in [Read, Credit] {
            let flat = one_key(&[kind; 5]);
            assert_eq!((flat.edges(), flat.critical_path()), (0, 1));
            assert_eq!(flat.tlp(), 5.0);
        }
    }

    #[test]
    fn only_two_groups_of_several_accesses_get_a_join_and_it_counts_for_no_path() {
        let direct = one_key(&[Write, Read, Read, Read, Write]);
        assert_eq!((direct.edges(), direct.joins(), direct.critical_path()), (6, 0, 3));
        let joined = one_key(&[Read, Read, Read, Credit, Credit, Read]);
        // Three readers into the join, two credits out of it; two credits into the next join, one reader out.
        assert_eq!((joined.edges(), joined.joins(), joined.critical_path()), (8, 2, 3));
        assert_eq!(joined.indegrees()[6..], [3, 2]);
        assert_eq!(joined.successors(6), [3, 4]);
        assert_eq!(joined.successors(7), [5]);
    }

    #[test]
    fn next_is_the_first_successor_unless_that_is_a_join() {
        let dag = one_key(&[Write, Write, Read, Read, Credit, Credit, Write]);
        assert!(dag.joins() > 0);
        for tx in 0..dag.len() {
            let first = dag.successors(tx).first().filter(|next| !dag.is_join(**next));
            assert_eq!(dag.next(TxIndex(tx as u32)), first.map(|next| TxIndex(*next)), "{tx}");
        }
        assert_eq!([0, 2, 4, 6].map(|tx| dag.next(TxIndex(tx))), [Some(TxIndex(1)), None, Some(TxIndex(6)), None]);
    }

    #[test]
    fn transactions_that_share_several_keys_get_one_edge() {
        let mut sets = AccessSets::new();
        for _ in 0..3 {
            sets.push((0..4).map(|k| (KeyId(k), Write)));
        }
        let dag = Dag::build(&sets, 4);
        assert_eq!(dag.edges(), 2);
        assert_eq!(dag.indegrees(), [0, 1, 1]);
    }

    #[test]
    fn a_key_that_a_set_names_twice_counts_as_the_join_of_its_accesses() {
        for twice in [[Read, Credit], [Credit, Read], [Write, Write], [Read, Write], [Write, Read], [Credit, Write]] {
            for earlier in [Read, Credit, Write] {
                let mut sets = AccessSets::new();
                sets.push([(KeyId(0), earlier)]);
                sets.push([(KeyId(0), twice[0]), (KeyId(0), twice[1])]);
                sets.push([(KeyId(0), Read)]);
                let dag = Dag::build(&sets, 1);
                assert_eq!(dag.critical_path(), 3, "{earlier:?} then {twice:?}");
                assert_eq!(dag.indegrees(), [0, 1, 1], "{earlier:?} then {twice:?}");
            }
        }
    }
}
