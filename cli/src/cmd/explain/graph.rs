//! The conflict graph of a block: edges, levels, critical path and hottest keys. Pure.

use phalanx::{
    access::{Access, AccessSets, Interner, Key as _, KeyId, Salt},
    paralyze::StateKey,
    parascheduler::Dag,
};

/// A block's graph with the gas of its transactions.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) sets: AccessSets<KeyId>,
    pub(super) keys: Vec<StateKey>,
    pub(super) dag: Dag,
    pub(super) gas: Vec<u64>,
    /// Edges `(earlier, later)` without the joins between, the first [`MAX_EDGES`] of them.
    pub(super) edges: Vec<(u32, u32)>,
    /// Number of all edges.
    pub(super) edges_total: u64,
    /// Level of each transaction: its predecessors on the longest chain to it.
    pub(super) level: Vec<u32>,
    /// The chain with the most gas, in order.
    pub(super) path: Vec<u32>,
}

/// Use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heat {
    pub(super) key: KeyId,
    /// Transactions that touch the key, by kind of access.
    pub(super) txs: usize,
    pub(super) reads: usize,
    pub(super) writes: usize,
    pub(super) credits: usize,
    /// Length of the chain that the key makes alone, in transactions.
    pub(super) chain: usize,
}

/// Maximum number of listed edges. Edges through a join multiply, and a picture of more would be black.
const MAX_EDGES: usize = 200_000;

impl Graph {
    pub(super) fn of_keys(sets: &AccessSets<StateKey>, gas: Vec<u64>) -> Self {
        let salt = Salt::new(0);
        let mut interner = Interner::new(salt);
        let mut ids = AccessSets::new();
        for set in sets.iter() {
            ids.push(set.iter().map(|(key, access)| (interner.intern_digested(key, key.digest(&salt)), *access)));
        }
        let mut keys = Vec::new();
        interner.take_keys(&mut keys);
        Self::new(ids, keys, gas)
    }

    /// Graph of `sets` over `keys`. O(accesses + edges).
    pub(super) fn new(sets: AccessSets<KeyId>, keys: Vec<StateKey>, mut gas: Vec<u64>) -> Self {
        let dag = Dag::build(&sets, keys.len());
        let n = dag.len();
        gas.resize(n, 0);
        let mut level = vec![0u32; dag.nodes()];
        // Gas and last transaction of the heaviest chain that ends before each node.
        let mut before: Vec<(u64, Option<u32>)> = vec![(0, None); dag.nodes()];
        let (mut edges, mut edges_total) = (Vec::new(), 0u64);
        let mut last: Option<(u64, u32)> = None;
        let mut back = vec![None; n];
        let mut join = n;
        for tx in 0..n {
            while join < dag.nodes() && dag.successors(join).first() == Some(&(tx as u32)) {
                let (through, at) = (before[join], level[join]);
                for next in dag.successors(join) {
                    let next = *next as usize;
                    before[next] = heavier(before[next], through);
                    level[next] = level[next].max(at);
                }
                join += 1;
            }
            back[tx] = before[tx].1;
            let chain = (before[tx].0 + gas[tx], Some(tx as u32));
            if last.is_none_or(|(most, _)| chain.0 > most) {
                last = Some((chain.0, tx as u32));
            }
            for next in dag.successors(tx) {
                let next = *next as usize;
                before[next] = heavier(before[next], chain);
                level[next] = level[next].max(level[tx] + 1);
                let (only, behind) = ([next as u32], dag.successors(next));
                let behind = if next < n { &only[..] } else { behind };
                edges_total += behind.len() as u64;
                edges.extend(behind.iter().take(MAX_EDGES - edges.len()).map(|later| (tx as u32, *later)));
            }
        }
        level.truncate(n);
        let mut path = Vec::new();
        let mut at = last.map(|(_, tx)| tx);
        while let Some(tx) = at {
            path.push(tx);
            at = back[tx as usize];
        }
        path.reverse();
        Self { sets, keys, dag, gas, edges, edges_total, level, path }
    }

    pub(super) fn path_gas(&self) -> u64 {
        self.path.iter().map(|tx| self.gas[*tx as usize]).sum()
    }

    pub(super) fn total_gas(&self) -> u64 {
        self.gas.iter().sum()
    }

    /// Key on which `later` conflicts with `earlier`, if there is an edge.
    pub(super) fn between(&self, earlier: u32, later: u32) -> Option<&StateKey> {
        let theirs = self.sets.get(earlier as usize);
        let key = self.sets.get(later as usize).iter().find_map(|(key, access)| {
            theirs.iter().any(|(other, kind)| other == key && kind.conflicts(*access)).then_some(*key)
        })?;
        self.keys.get(key.index())
    }

    /// Hottest keys, by the length of their chains, then by the number of transactions that touch them.
    pub(super) fn hottest(&self, count: usize) -> Vec<Heat> {
        let heat = |key| Heat { key: KeyId(key as u32), txs: 0, reads: 0, writes: 0, credits: 0, chain: 0 };
        let mut heats: Vec<Heat> = (0..self.keys.len()).map(heat).collect();
        let mut last: Vec<Option<Access>> = vec![None; self.keys.len()];
        for (key, access) in self.sets.entries() {
            let heat = &mut heats[key.index()];
            heat.txs += 1;
            match access {
                Access::Read => heat.reads += 1,
                Access::Write => heat.writes += 1,
                Access::Credit => heat.credits += 1,
            }
            // Neighbouring reads, or credits, run together.
            let alike = last[key.index()] == Some(*access) && *access != Access::Write;
            heat.chain += usize::from(!alike);
            last[key.index()] = Some(*access);
        }
        heats.sort_by_key(|heat| (core::cmp::Reverse((heat.chain, heat.txs)), heat.key.0));
        heats.truncate(count);
        heats
    }
}

const fn heavier(a: (u64, Option<u32>), b: (u64, Option<u32>)) -> (u64, Option<u32>) {
    if b.0 > a.0 || a.1.is_none() { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(sets: &[&[(u32, Access)]], gas: &[u64]) -> Graph {
        let mut all = AccessSets::new();
        sets.iter().for_each(|set| all.push(set.iter().map(|(key, access)| (KeyId(*key), *access))));
        let address = |key: u8| StateKey::Basic(phalanx::revm::primitives::Address::repeat_byte(key));
        Graph::new(all, (0..4).map(address).collect(), gas.to_vec())
    }

    use Access::{Credit, Read, Write};

    #[test]
    fn the_path_is_the_heaviest_chain_not_the_longest() {
        // Three cheap transactions on key 0, two expensive ones on key 1, and an independent one.
        let graph = graph(
            &[&[(0, Write)], &[(1, Write)], &[(0, Write)], &[(0, Write)], &[(1, Write)], &[(2, Write)]],
            &[10, 100, 10, 10, 100, 50],
        );
        assert_eq!((graph.path.as_slice(), graph.path_gas(), graph.total_gas()), (&[1, 4][..], 200, 280));
        assert_eq!(graph.level, [0, 0, 1, 2, 1, 0]);
        assert_eq!(graph.edges, [(0, 2), (1, 4), (2, 3)]);
        assert_eq!(graph.between(1, 4), Some(&graph.keys[1]));
        assert_eq!(graph.between(1, 5), None);
    }

    #[test]
    fn groups_run_together_and_joins_are_expanded() {
        let graph = graph(
            &[&[(0, Credit)], &[(0, Credit)], &[(0, Credit)], &[(0, Read)], &[(0, Read)], &[(3, Read)]],
            &[1, 1, 5, 1, 1, 1],
        );
        assert!(graph.dag.joins() > 0);
        assert_eq!(graph.path, [2, 3]);
        assert_eq!(graph.level, [0, 0, 0, 1, 1, 0]);
        assert_eq!(graph.edges.len(), 6, "{:?}", graph.edges);
        let heat = graph.hottest(1)[0];
        assert_eq!((heat.key, heat.txs, heat.credits, heat.reads, heat.chain), (KeyId(0), 5, 3, 2, 2));
    }

    #[test]
    fn edges_that_are_not_listed_are_counted() {
        // Every reader waits for every credit: the join between them replaces many edges by few.
        let crowd = 500u32;
        let own = |tx: u32| 4 + tx;
        let mut all = AccessSets::new();
        (0..2 * crowd).for_each(|tx| {
            all.push([(KeyId(0), if tx < crowd { Credit } else { Read }), (KeyId(own(tx)), Write)]);
        });
        let key = StateKey::Basic(phalanx::revm::primitives::Address::ZERO);
        let graph = Graph::new(all, vec![key; 4 + 2 * crowd as usize], vec![]);
        assert_eq!((graph.edges.len(), graph.edges_total), (MAX_EDGES, u64::from(crowd * crowd)));
    }

    #[test]
    fn an_empty_block_has_neither_path_nor_heat() {
        let graph = graph(&[], &[]);
        assert!(graph.path.is_empty() && graph.edges.is_empty() && graph.path_gas() == 0);
        assert!(graph.hottest(3).iter().all(|heat| heat.txs == 0));
    }
}
