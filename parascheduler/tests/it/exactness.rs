//! The DAG orders conflicts and nothing else, with edges linear in the accesses.

use crate::common::{conflict_closure, dag_closure, heaviest_chain, random_block};
use phalanx_access::{
    Access::{self, Credit, Read, Write},
    AccessSets, KeyId,
};
use phalanx_parascheduler::{Dag, DagBuilder, TxIndex};

#[test]
fn the_dag_orders_exactly_the_conflicts() {
    // One builder and one DAG for all blocks, so that a remainder of an earlier block would show.
    let mut builder = DagBuilder::new();
    let mut dag = Dag::default();
    let mut joins = 0;
    for seed in 0..3_000 {
        let (sets, n_keys) = random_block(seed, 60);
        builder.build(&sets, n_keys, &mut dag);
        let expected = conflict_closure(&sets);
        assert_eq!(dag_closure(&dag), expected, "seed {seed}: {sets:?}");
        assert_eq!(dag.critical_path() as u64, heaviest_chain(&expected, |_| 1), "seed {seed}");
        let weight = |tx: usize| (tx as u64 * 7 + seed) % 11;
        let tails = dag.tails(|tx| weight(tx.index()));
        assert_eq!(tails.iter().max().copied().unwrap_or(0), heaviest_chain(&expected, weight), "seed {seed}");
        let before: Vec<_> = dag.sources().to_vec();
        dag.begin_with_heaviest(&tails);
        assert!(dag.sources().is_sorted_by_key(|tx| core::cmp::Reverse(tails[tx.index()])), "seed {seed}");
        let mut after: Vec<_> = dag.sources().to_vec();
        after.sort_unstable();
        assert_eq!(after, before, "seed {seed}");
        joins += dag.joins();
    }
    assert!(joins > 1_000, "the blocks must exercise joins: {joins}");
}

#[test]
fn the_parts_of_a_dag_agree() {
    for seed in 0..1_000 {
        let (sets, n_keys) = random_block(seed, 80);
        let dag = Dag::build(&sets, n_keys);
        let mut indegrees = vec![0; dag.nodes()];
        for node in 0..dag.nodes() {
            let successors = dag.successors(node);
            for next in successors {
                indegrees[*next as usize] += 1;
                let to_join = *next as usize >= dag.len();
                assert!(if node < dag.len() { to_join || *next as usize > node } else { !to_join }, "seed {seed}");
            }
            let mut distinct = successors.to_vec();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), successors.len(), "seed {seed}: duplicate edge from {node}");
        }
        assert_eq!(dag.indegrees(), indegrees, "seed {seed}");
        assert!(indegrees[dag.len()..].iter().all(|d| *d >= 2), "seed {seed}: a join of one");
        let sources: Vec<_> = (0..dag.len()).filter(|tx| indegrees[*tx] == 0).map(|tx| TxIndex(tx as u32)).collect();
        assert_eq!(dag.sources(), sources, "seed {seed}");
        assert!(dag.edges() <= 2 * sets.entries().len(), "seed {seed}");
    }
}

/// A hot key with groups of `each` accesses of alternating kinds would need `each` squared edges per switch.
#[test]
fn hot_keys_need_edges_linear_in_accesses() {
    for cycle in [&[Read, Credit][..], &[Read, Write], &[Credit, Write], &[Read, Credit, Write], &[Write]] {
        for each in [1, 2, 3, 100, 5_000] {
            let mut sets = AccessSets::new();
            for kind in cycle.iter().cycle().take(cycle.len() * 3) {
                for _ in 0..each {
                    sets.push([(KeyId(0), *kind)]);
                }
            }
            let dag = Dag::build(&sets, 1);
            assert!(dag.edges() <= 2 * sets.len(), "{cycle:?} x {each}: {} edges", dag.edges());
            let groups: usize = cycle.iter().map(|kind| if *kind == Access::Write { each } else { 1 }).sum();
            assert_eq!(dag.critical_path(), groups * 3, "{cycle:?} x {each}");
        }
    }
}

#[test]
#[should_panic]
fn a_key_beyond_the_table_is_refused() {
    let mut sets = AccessSets::new();
    sets.push([(KeyId(3), Read)]);
    Dag::build(&sets, 3);
}
