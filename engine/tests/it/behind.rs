//! Roots that are computed beside the next block's execution, when something goes wrong with either.

use crate::common::{builder, call, env, eoa};
use phalanx::{
    Behind, Block, BlockLimits, Engine, Error, Observer, Order, Stage, Unsealed,
    revm::{
        context::{BlockEnv, TxEnv},
        primitives::{Address, B256, U256},
    },
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

const LIMITS: BlockLimits = BlockLimits { max_txs: 2, max_gas: u64::MAX };

fn to(receiver: u8, nonce: u64) -> TxEnv {
    call(1, nonce, Address::repeat_byte(receiver), 1)
}

fn engine() -> Engine {
    let mut engine = builder().with_threads(2).with_all_workers(true).build().expect("an engine in memory");
    engine.genesis([eoa(1), eoa(2)]).expect("a sound genesis");
    engine
}

/// Executes the next block of `txs` behind `before`.
fn step<'t>(
    engine: &mut Engine,
    before: Option<Unsealed<'t>>,
    txs: &'t [TxEnv],
    block: Block,
    env: &BlockEnv,
) -> Result<Behind<'t>, Error> {
    let mut none = engine.plan(&[], Order::Given, LIMITS);
    engine.execute_behind(before, env, txs, block, &mut none, env)
}

fn blocks(engine: &Engine, txs: &[TxEnv]) -> Vec<Block> {
    let mut planner = engine.plan(txs, Order::Given, LIMITS);
    core::iter::from_fn(|| planner.next_block(engine, &env(1))).collect()
}

/// The roots and balances that blocks lead to one after the other.
fn in_turns(txs: &[TxEnv]) -> (Vec<B256>, Engine) {
    let mut engine = engine();
    let mut commit = |(number, block)| {
        let executed = engine.execute(&env(number), txs, block).expect("execution");
        let committed = engine.merkleize(executed).and_then(|root| engine.commit(root)).expect("a commit");
        committed.state_root
    };
    let roots = (1..).zip(blocks(&self::engine(), txs)).map(&mut commit).collect();
    (roots, engine)
}

#[test]
fn the_block_before_is_committed_whatever_becomes_of_the_next_one() {
    let txs = [to(9, 0), to(8, 1), to(9, 2), to(7, 3)];
    let (roots, _) = in_turns(&txs);
    let mut engine = engine();
    let genesis = engine.state().root();
    let [first, second] = <[Block; 2]>::try_from(blocks(&engine, &txs)).expect("two blocks");
    let done = step(&mut engine, None, &txs, first, &env(1)).expect("execution");
    assert!(done.committed.is_none() && done.planned.is_none());
    assert_eq!(
        (engine.state().height(), engine.state().root(), done.executed.as_ref().expect("execution").order()),
        (Some(0), genesis, &[0, 1][..])
    );
    // No block is executed without a source of randomness.
    let blind = BlockEnv { prevrandao: None, ..env(2) };
    let executed = done.executed.expect("execution");
    let failed = step(&mut engine, Some(executed), &txs, second.clone(), &blind).expect("a commit");
    assert!(matches!(failed.executed, Err(Error::Environment { .. })), "{failed:?}");
    assert_eq!(failed.committed.expect("it is committed").state_root, roots[0]);
    assert_eq!((engine.state().height(), engine.state().root()), (Some(1), roots[0]));
    // It goes on from there.
    let done = step(&mut engine, None, &txs, second, &env(2)).expect("execution");
    let committed = done.executed.and_then(|last| engine.commit_unsealed(last)).expect("a commit");
    assert_eq!((committed.state_root, engine.state().root()), (roots[1], roots[1]));
}

#[test]
fn a_block_executed_on_another_state_is_stale_and_changes_nothing() {
    let txs = [to(9, 0), to(8, 1), to(9, 2), to(7, 3)];
    let mut engine = engine();
    let [first, second] = <[Block; 2]>::try_from(blocks(&engine, &txs)).expect("two blocks");
    let mut execute = || step(&mut engine, None, &txs, first.clone(), &env(1)).and_then(|done| done.executed);
    let [one, other, third] = [(); 3].map(|()| execute().expect("execution"));
    let committed = engine.commit_unsealed(one).expect("a commit");
    let failed = engine.commit_unsealed(other);
    assert!(matches!(failed, Err(Error::Stale)), "{failed:?}");
    let failed = step(&mut engine, Some(third), &txs, second.clone(), &env(2));
    assert!(matches!(failed, Err(Error::Stale)), "{failed:?}");
    assert_eq!((engine.state().height(), engine.state().root()), (Some(1), committed.state_root));
    let balance = |engine: &Engine, of| engine.state().account(&Address::repeat_byte(of)).expect("readable");
    assert_eq!(balance(&engine, 9), Some((0, U256::from(1))));
    let done = step(&mut engine, None, &txs, second, &env(2)).expect("execution");
    assert_eq!(balance(&engine, 9), Some((0, U256::from(1))), "nothing of it is there before it is committed");
    let last = done.executed.and_then(|last| engine.commit_unsealed(last)).expect("a commit");
    assert_eq!(last.state_root, in_turns(&txs).0[1]);
    assert_eq!(balance(&engine, 9), Some((0, U256::from(2))));
}

/// What was executed on a block while its root was computed may be sealed the other way as well.
#[test]
fn both_ways_lead_to_the_same_chain() {
    let txs: Vec<TxEnv> = (0..40).map(|nonce| to(nonce as u8 % 5 + 2, nonce)).collect();
    let (roots, other) = in_turns(&txs);
    let mut engine = engine();
    let (mut seen, mut before) = (Vec::new(), None);
    for (number, block) in (1..).zip(blocks(&engine, &txs)) {
        let done = step(&mut engine, before.take(), &txs, block, &env(number)).expect("execution");
        seen.extend(done.committed.map(|committed| committed.state_root));
        let executed = done.executed.expect("execution");
        match number % 3 {
            0 => seen.push(engine.commit_unsealed(executed).expect("a commit").state_root),
            _ => before = Some(executed),
        }
    }
    seen.extend(before.map(|last| engine.commit_unsealed(last).expect("a commit").state_root));
    assert_eq!(seen, roots);
    assert_eq!(engine.state().dump().expect("sound"), other.state().dump().expect("sound"));
}

/// Panics where the next block is executed, if it is told to.
#[derive(Default)]
struct Fails(AtomicBool);

impl Observer for Fails {
    fn enter(&self, stage: Stage) {
        assert!(stage != Stage::Execute || !self.0.load(Ordering::Relaxed), "as it should");
    }

    fn leave(&self, _: Stage) {}
}

#[test]
fn after_a_panic_the_state_is_the_committed_one() {
    let txs = [to(9, 0), to(8, 1), to(9, 2), to(7, 3)];
    let (roots, _) = in_turns(&txs);
    let fails = Arc::new(Fails::default());
    let observed = builder().with_threads(2).with_all_workers(true).with_observer(Arc::clone(&fails) as _);
    let mut engine = observed.build().expect("an engine in memory");
    let genesis = engine.genesis([eoa(1), eoa(2)]).expect("a sound genesis");
    let [first, second] = <[Block; 2]>::try_from(blocks(&engine, &txs)).expect("two blocks");
    let execute = |engine: &mut Engine, before, block: &Block, number| {
        step(engine, before, &txs, block.clone(), &env(number)).map(|done| done.executed.expect("execution"))
    };
    let [one, other] = [(); 2].map(|()| execute(&mut engine, None, &first, 1).expect("execution"));
    fails.0.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| execute(&mut engine, Some(one), &second, 2).map(drop))).is_err());
    fails.0.store(false, Ordering::Relaxed);
    assert_eq!((engine.state().height(), engine.state().root()), (Some(0), genesis));
    assert_eq!(engine.state().account(&Address::repeat_byte(9)).expect("readable"), None);
    // What was executed on the same state is not stale.
    let last = execute(&mut engine, Some(other), &second, 2).expect("a commit");
    assert_eq!(engine.state().root(), roots[0]);
    assert_eq!(engine.commit_unsealed(last).expect("a commit").state_root, roots[1]);
}
