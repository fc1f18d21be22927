//! Seeds, random blocks and the naive oracle: transitive conflicts, by comparing every pair.

use phalanx_access::{
    Access::{self, Credit, Read, Write},
    AccessSet, AccessSets, KeyId,
};
use phalanx_parascheduler::Dag;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// The seeds of a test that runs `count` by default.
pub(crate) fn seeds(count: u64) -> Range<u64> {
    let first = number("PHALANX_SEED").unwrap_or(0);
    first..first + number("PHALANX_SEEDS").unwrap_or(count)
}

/// A block of up to `max_txs` transactions over few or many keys; shapes vary with the seed. Returns the key count too.
pub(crate) fn random_block(seed: u64, max_txs: usize) -> (AccessSets<KeyId>, usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let txs = rng.random_range(0..=max_txs);
    let keys = [1, 2, 5, 20, 200][rng.random_range(0..5)];
    let most = rng.random_range(0..=6);
    let weights = [[1, 1, 1], [8, 8, 1], [6, 1, 1], [1, 6, 1], [0, 1, 0], [1, 1, 0]][rng.random_range(0..6)];
    let mut sets = AccessSets::new();
    for _ in 0..txs {
        let mut set = AccessSet::new();
        for _ in 0..rng.random_range(0..=most) {
            set.add(KeyId(rng.random_range(0..keys)), kind(&mut rng, weights));
        }
        sets.push(set.as_slice().iter().copied());
    }
    (sets, keys as usize)
}

fn kind(rng: &mut ChaCha8Rng, [reads, credits, writes]: [u32; 3]) -> Access {
    let at = rng.random_range(0..reads + credits + writes);
    if at < reads {
        Read
    } else if at < reads + credits {
        Credit
    } else {
        Write
    }
}

/// `closure[i][j]`: transaction `j` must wait for transaction `i`, directly or not.
pub(crate) type Closure = Vec<Vec<bool>>;

/// The oracle: the transitive closure of "conflicts and comes earlier". O(n^3).
pub(crate) fn conflict_closure(sets: &AccessSets<KeyId>) -> Closure {
    let conflict = |a: &[(KeyId, Access)], b: &[(KeyId, Access)]| {
        a.iter().any(|(key, access)| b.iter().any(|(k, o)| k == key && access.conflicts(*o)))
    };
    let n = sets.len();
    let mut closure = vec![vec![false; n]; n];
    for i in (0..n).rev() {
        for j in i + 1..n {
            if conflict(sets.get(i), sets.get(j)) {
                let (upper, lower) = closure.split_at_mut(j);
                upper[i][j] = true;
                upper[i].iter_mut().zip(&lower[0]).for_each(|(through, reached)| *through |= *reached);
            }
        }
    }
    closure
}

/// Order of the DAG, joins contracted: depth-first search from every transaction.
pub(crate) fn dag_closure(dag: &Dag) -> Closure {
    let n = dag.len();
    let mut closure = vec![vec![false; n]; n];
    for (from, reached) in closure.iter_mut().enumerate() {
        let mut seen = vec![false; dag.nodes()];
        let mut stack = vec![from];
        while let Some(node) = stack.pop() {
            for next in dag.successors(node).iter().map(|next| *next as usize) {
                if !std::mem::replace(&mut seen[next], true) {
                    stack.push(next);
                }
            }
        }
        reached.copy_from_slice(&seen[..n]);
    }
    closure
}

/// The heaviest chain of the oracle's order.
pub(crate) fn heaviest_chain(closure: &Closure, weight: impl Fn(usize) -> u64) -> u64 {
    let mut chain: Vec<u64> = (0..closure.len()).map(&weight).collect();
    for j in 0..closure.len() {
        for i in 0..j {
            if closure[i][j] {
                chain[j] = chain[j].max(chain[i] + weight(j));
            }
        }
    }
    chain.into_iter().max().unwrap_or(0)
}
