//! Access lists on a foreign database: a true list leaves what revm leaves, a lie has the verdict that it has on the engine's own
//! state.

use super::{
    encode,
    lies::{KINDS, each_valid_case, found, lie},
};
use crate::kit::{Asked, Case, World, bundle_difference, stateless, stock};
use phalanx::{BlockError, Executor, ForeignBlock, Hints, Outcome, revm::primitives::keccak256};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

fn world(case: &Case) -> World {
    World::new(&case.genesis, &case.ancestors, case.rules.spec(&case.blocks[0].header))
}

/// Executes the first block on the list, by the given number of threads.
fn execute(case: &Case, world: &World, threads: usize, rlp: &[u8]) -> Result<ForeignBlock, BlockError> {
    let hints = Hints::AccessList { rlp, hash: keccak256(rlp) };
    stateless(&case.rules, Executor::Dag, threads).execute_on(&Asked::new(world), &case.blocks[0].payload(), hints)
}

#[test]
fn a_true_list_leaves_what_revm_leaves() {
    each_valid_case(40, |_, case, truth| {
        let (world, rlp) = (world(case), encode(truth));
        let (results, bundle) = stock(&case.rules, &Asked::new(&world), &case.blocks[0]);
        let results: Vec<_> = results.into_iter().map(Outcome::Executed).collect();
        for threads in [1, 2, 4] {
            let ours = execute(case, &world, threads, &rlp).unwrap_or_else(|error| panic!("{error}\n{case}"));
            assert_eq!(ours.block.outcomes(), results, "{threads} threads\n{case}");
            assert_eq!(bundle_difference(&ours.bundle, &bundle), None, "{threads} threads\n{case}");
        }
    });
}

#[test]
fn a_lie_has_the_verdict_of_the_own_state() {
    each_valid_case(8, |seed, case, truth| {
        let world = world(case);
        for kind in 0..KINDS {
            let mut rng = ChaCha8Rng::seed_from_u64(seed << 8 | u64::from(kind));
            let mut list = truth.to_vec();
            if lie(kind, &mut list, case.blocks[0].txs.len() as u64, &mut rng).is_none() {
                continue;
            }
            let rlp = encode(&list);
            let own = found(case, &rlp, keccak256(&rlp), &format!("kind {kind}"));
            for threads in [1, 4] {
                match execute(case, &world, threads, &rlp) {
                    Err(BlockError::AccessList { index, .. }) => assert_eq!(index, own, "kind {kind}\n{case}"),
                    other => panic!("kind {kind}, {threads} threads: {other:?}\n{case}"),
                }
            }
        }
    });
}
