//! A run on one thread in an order drawn from a seed, to repeat what one interleaving shows.

use crate::{
    dag::{Dag, TxIndex},
    job::{Job, Report, Verdict},
};

/// Runs a DAG on the caller's thread in an order drawn from `seed` among all that the DAG permits. The locals take turns.
/// A seed gives the same order every time, so a failure by a missing edge repeats.
pub(crate) fn run<L, J: Job<L> + ?Sized>(dag: &Dag, locals: &mut [L], job: &J, seed: u64) -> Report {
    let mut report = Report::default();
    let mut missing = dag.indegrees().to_vec();
    let mut poisoned = vec![false; dag.nodes()];
    let mut ready: Vec<u32> = dag.sources().iter().map(|tx| tx.0).collect();
    let mut draws = seed;
    while !ready.is_empty() {
        draws = draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let drawn = mix(draws);
        let node = ready.swap_remove((drawn % ready.len() as u64) as usize);
        let local = &mut locals[(drawn >> 32) as usize % locals.len()];
        let poison = if dag.is_join(node) {
            poisoned[node as usize]
        } else if poisoned[node as usize] {
            report.withdrawn.push(TxIndex(node));
            true
        } else if job.run(local, TxIndex(node)) == Verdict::Escaped {
            report.escaped.push(TxIndex(node));
            true
        } else {
            false
        };
        for next in dag.successors(node as usize) {
            poisoned[*next as usize] |= poison;
            missing[*next as usize] -= 1;
            if missing[*next as usize] == 0 {
                ready.push(*next);
            }
        }
    }
    report.escaped.sort_unstable();
    report.withdrawn.sort_unstable();
    report
}

/// SplitMix64's finalizer.
const fn mix(word: u64) -> u64 {
    let z = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
