//! Real blocks with the artefacts of validators.

use super::encode;
use crate::mainnet::{Replay, share};
use phalanx::{
    BlockError, Executor, Hints,
    eip7928::BlockAccessIndex,
    revm::primitives::{U256, keccak256},
};

/// First block from which every block can run on its list.
const CANCUN: u64 = 19_426_587;

#[test]
fn real_blocks_have_one_list_and_run_on_it() {
    for block in share() {
        let number = block.header.number;
        let replay = Replay::new(&block).with_access_lists();
        let mut oracle = replay.engine(Executor::Sequential, 1, None);
        let exceptions = oracle.exceptions(&replay.payload()).expect("a valid block");
        let executed = oracle.execute_block(&replay.payload(), Hints::None).expect("a valid block");
        let list = executed.block().access_list().expect("the engine produces lists").clone();
        drop(executed);
        let truth = replay.run(&mut oracle, Hints::None);
        let committed = Hints::AccessList { rlp: list.rlp(), hash: list.hash() };
        let all = [
            (Executor::BlockStm, Hints::None, "no hints"),
            (Executor::Dag, Hints::Predict, "predictions"),
            (Executor::Dag, Hints::Exceptions(&exceptions), "exceptions"),
            (Executor::Dag, Hints::Exceptions(&exceptions[..exceptions.len() / 2]), "half of the exceptions"),
            (Executor::Dag, committed, "list"),
            (Executor::BlockStm, committed, "list"),
        ];
        for threads in [1, 2, 4, 8] {
            for (executor, hints, name) in all {
                let mut engine = replay.engine(executor, threads, None);
                let executed = engine.execute_block(&replay.payload(), hints).expect("a valid block");
                let ours = executed.block().access_list().expect("the engine produces lists");
                assert!(*ours == list, "{number}: {executor:?}, {name}, {threads} threads: another list");
                if name == "list" && executor == Executor::Dag && number >= CANCUN {
                    assert_eq!(executed.block().stats().run.critical_path, 1, "{number}: it runs on values");
                }
                drop(executed);
                let ours = replay.run(&mut engine, hints);
                assert!(ours == truth, "{number}: {executor:?}, {name}, {threads} threads");
            }
        }
        // The first and the last word of the list, off by one.
        for (last, threads) in [(false, 2), (true, 4)] {
            let mut accounts = list.accounts().to_vec();
            let mut changes: Vec<(BlockAccessIndex, &mut U256)> = accounts
                .iter_mut()
                .flat_map(|account| &mut account.balance_changes)
                .map(|change| (change.block_access_index, &mut change.post_balance))
                .collect();
            changes.sort_by_key(|(index, _)| *index);
            let change = if last { changes.pop() } else { changes.into_iter().next() };
            let Some((index, value)) = change else { continue };
            *value = value.wrapping_add(U256::ONE);
            let rlp = encode(&accounts);
            let hints = Hints::AccessList { rlp: &rlp, hash: keccak256(&rlp) };
            let mut engine = replay.engine(Executor::Dag, threads, None);
            match engine.execute_block(&replay.payload(), hints) {
                Err(BlockError::AccessList { index: found, .. }) => assert_eq!(found, Some(index.get() as usize)),
                other => panic!("{number}: {other:?}"),
            }
        }
    }
}
