//! Bounds on the work of each executor on adversarial blocks and hints: counted, never timed.

use crate::kit::{Asm, Case, Hint, Way, builder, call, contract, env, eoa, run};
use phalanx::{
    BlockLimits, Executor, Order, RunStats,
    revm::{
        bytecode::opcode::{ADD, BALANCE, SSTORE},
        context::TxEnv,
        primitives::{Address, U256},
    },
};

const TXS: u64 = 120;

/// Blocks by their difficulty.
fn blocks() -> Vec<(&'static str, Case)> {
    // Counters: one that writes where it counts; one that does so with every earlier slot; and one without conflicts.
    let chain = Asm::new().load(0).push(U256::ONE).ops(&[ADD, 0x80]).store(0).push(U256::ONE).ops(&[0x90, SSTORE]);
    let crowd = (0..8).fold(Asm::new(), |code, slot| code.count(slot));
    let apart = Asm::new().push(U256::ONE).op(0x33).op(SSTORE);
    // Every transaction reads the beneficiary.
    let look = Asm::new().ops(&[0x41, BALANCE, 0x33, SSTORE]);
    let contracts =
        [(0xe0, &chain), (0xe1, &crowd), (0xe2, &apart), (0xe3, &look)].map(|(at, code)| (at, code.clone().build()));
    let case = || {
        let people = (1..=TXS as u8).map(eoa);
        Case::new("Osaka").with(people).with(contracts.iter().map(|(at, code)| contract(*at, code)))
    };
    let all = |to: fn(u64) -> u8| {
        let tx = |i: u64| call(1 + i as u8, 0, Address::repeat_byte(to(i)), 0);
        case().block((0..TXS).map(tx))
    };
    vec![
        ("a chain", all(|_| 0xe0)),
        ("a crowd", all(|_| 0xe1)),
        ("nothing in common", all(|_| 0xe2)),
        ("all read the beneficiary", all(|_| 0xe3)),
        ("every second transaction in a chain", all(|i| if i % 2 == 0 { 0xe0 } else { 0xe2 })),
        ("one sender", case().block((0..TXS).map(|nonce| call(1, nonce, Address::repeat_byte(2), 1)))),
    ]
}

/// Statistics of running the block of a case, whose result is checked.
fn stats(case: &Case, way: &Way) -> RunStats {
    let perfect = if way.executor == Executor::Dag { case.perfect() } else { Vec::new() };
    let (verdicts, stats) = case.run(way, &perfect);
    assert!(verdicts[0].is_ok(), "{verdicts:?}");
    assert!(verdicts == case.run(&Way::sequential(), &[]).0, "{way:?}");
    stats[0]
}

#[test]
fn true_hints_cost_one_execution_each() {
    for (name, case) in blocks() {
        for threads in [1, 2, 8] {
            let stats = stats(&case, &Way::dag(threads, Hint::Perfect));
            assert_eq!((stats.escapes, stats.reexecutions, stats.fallback), (0, 0, false), "{name}, {threads} threads");
        }
    }
}

#[test]
fn lies_cost_at_most_one_execution_more_unless_block_stm_takes_over() {
    for (name, case) in blocks() {
        for threads in [1, 2, 8] {
            for hints in [
                Hint::Empty,
                Hint::Everything,
                Hint::Wrong { percent: 5, seed: 1 },
                Hint::Wrong { percent: 100, seed: 2 },
                Hint::Lies { seed: 3 },
                Hint::Lies { seed: 4 },
                Hint::Lies { seed: 5 },
            ] {
                let way = Way::dag(threads, hints);
                let stats = stats(&case, &way);
                println!("{name}, {way:?}: {stats:?}");
                assert!(threads > 1 || !stats.fallback, "a single worker settles");
                if !stats.fallback {
                    assert!(stats.reexecutions as u64 <= TXS, "{name}, {way:?}: {stats:?}");
                }
            }
        }
    }
}

#[test]
fn block_stm_runs_each_transaction_a_bounded_number_of_times() {
    for (name, case) in blocks() {
        let alone = stats(&case, &Way::stm(1, None));
        assert_eq!(alone.reexecutions, 0, "{name}: one worker runs in order");
        for threads in [2, 4, 8] {
            for seed in [None, Some(1), Some(2), Some(3), Some(4)] {
                let stats = stats(&case, &Way::stm(threads, seed));
                println!("{name}, {threads} threads, seed {seed:?}: {stats:?}");
                // Three attempts, one when all before it is final, and one if a credit overflows.
                assert!(stats.reexecutions as u64 <= 4 * TXS, "{name}, {threads} threads, seed {seed:?}: {stats:?}");
                if name == "nothing in common" {
                    assert_eq!(stats.reexecutions, 0, "{threads} threads, seed {seed:?}");
                }
            }
        }
    }
}

#[test]
fn absurd_hints_change_nothing() {
    use phalanx::{
        Hints,
        access::{Access, AccessSets},
        paralyze::StateKey,
    };
    let (_, case) = blocks().swap_remove(2);
    let (truth, _) = case.run(&Way::sequential(), &[]);
    let root = truth[0].as_ref().expect("a valid block").root;
    let mut absurd = AccessSets::new();
    for index in 0..TXS {
        let size = if index % 60 == 7 { 1_000_000 } else { index };
        let home = Address::repeat_byte(index as u8);
        absurd.push((0..size).map(|slot| (StateKey::Slot(home, U256::from(slot)), Access::Write)));
    }
    for threads in [1, 4] {
        let mut engine = case.engine(&Way::dag(threads, Hint::None));
        let executed = engine.execute_block(&case.blocks[0].payload(), Hints::Sets(&absurd)).expect("a valid block");
        assert!(executed.block().stats().run.reexecutions as u64 <= TXS, "no two transactions conflict");
        assert_eq!(engine.merkleize(executed).expect("a root").state_root(), root);
    }
}

#[test]
fn contention_on_the_beneficiary_is_settled_within_the_bound() {
    // Half of the block is predicted, the other half escapes by an unpredictable slot.
    let (_, case) = blocks().swap_remove(4);
    let txs: Vec<TxEnv> = case.blocks[0].txs.clone();
    for threads in [1, 2, 8] {
        let stats = stats(&case, &Way::dag(threads, Hint::Predict));
        println!("{threads} threads: {stats:?} for {} transactions", txs.len());
        assert!(stats.escapes > 0, "the snapshot cannot know the count");
        assert!(stats.fallback || stats.reexecutions <= txs.len(), "{stats:?}");
    }
}

#[test]
fn speculation_along_a_long_chain_is_bounded() {
    let chain: Vec<TxEnv> = (0..6000).map(|nonce| call(1, nonce, Address::repeat_byte(2), 1)).collect();
    let limits = BlockLimits { max_txs: 10_000, max_gas: u64::MAX };
    let run = |executor, threads| {
        let builder = builder().with_executor(executor).with_threads(threads);
        run(builder, &[eoa(1)], &chain, Order::Given, limits, env)
    };
    let truth = run(Executor::Sequential, 1);
    assert_eq!(truth.succeeded(), 6000);
    for threads in [1, 2, 4] {
        let ran = run(Executor::BlockStm, threads);
        assert_eq!(ran.blocks, truth.blocks, "{threads} threads");
        println!("{threads} threads: {} surplus executions", ran.reexecutions);
        // At worst two of twelve parts are tried, with at most four surplus executions each.
        assert!(ran.reexecutions <= 6000 * 2 / 12 * 4 + 512 * 4, "{threads} threads: {}", ran.reexecutions);
    }
}
